import type { Page } from 'playwright-core'
import type { Size } from '../../shared/pictures.ts'

// What a browser shows of a picture.

/** A script, because the compiler of the tests adds helpers to functions that pages don't have. */
const DRAW = `async ({ source, width, height, background }) => {
  const image = new Image()
  image.src = source
  await image.decode()
  const canvas = document.createElement('canvas')
  canvas.width = width || image.naturalWidth
  canvas.height = height || image.naturalHeight
  const context = canvas.getContext('2d')
  context.imageSmoothingQuality = 'high'
  context.fillStyle = background
  context.fillRect(0, 0, canvas.width, canvas.height)
  context.drawImage(image, 0, 0, canvas.width, canvas.height)
  const { data } = context.getImageData(0, 0, canvas.width, canvas.height)
  let text = ''
  for (let at = 0; at < data.length; at += 8192) {
    text += String.fromCharCode(...data.subarray(at, at + 8192))
  }
  return { width: canvas.width, height: canvas.height, samples: btoa(text) }
}`

export interface Drawn extends Size {
  /** Four bytes a pixel, sRGB, opaque. */
  readonly samples: Buffer
}

/**
 * Draws a picture over a colour of CSS, as the browser understands its orientation and colours.
 *
 * @param size of the drawing; the default is the picture's own
 * @throws {Error} when the browser can't decode it
 */
export async function draw (
  page: Page,
  picture: Buffer,
  contentType: string,
  { size, background = 'white' }: { readonly size?: Size, readonly background?: string } = {}
): Promise<Drawn> {
  const source = `data:${contentType};base64,${picture.toString('base64')}`
  const drawing = JSON.stringify({ source, ...size, background })
  const { samples, ...drawn } = await page
    .evaluate<Size & { samples: string }>(`(${DRAW})(${drawing})`)
  return { ...drawn, samples: Buffer.from(samples, 'base64') }
}
