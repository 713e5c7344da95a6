import t from 'tap'
import { ConflictError, srcset } from '../../../packages/client/src/index.ts'
import { signedUp, startApp } from '../../helpers/api-client.ts'
import { startBrowser } from '../../helpers/browser.ts'
import { metadataOf } from '../../shared/picture-metadata.ts'
import { phonePhoto } from '../../shared/pictures.ts'
import { provide } from '../../shared/programs.ts'
import { stored } from '../../helpers/stores.ts'

// A page that was made with the client, as a reader with a small screen sees it.

/** What the tests use in the page; the project is compiled without the types of browsers. */
interface Page {
  readonly fetch: typeof fetch
  readonly document: {
    readonly body: { innerHTML: string }
    querySelector(selector: string): Image | Canvas
  }
}
interface Image {
  readonly currentSrc: string
  readonly naturalWidth: number
  readonly naturalHeight: number
  decode(): Promise<void>
}
interface Canvas {
  getContext(kind: '2d'): {
    drawImage(image: Image, x: number, y: number, width: number, height: number): void
    getImageData(x: number, y: number, width: number, height: number): { data: Uint8ClampedArray }
  }
}

t.test('a photo of a phone is shown upright, small, without the place where it was taken, and stays while it is used', async (t) => {
  const { app, url } = await startApp(t)
  const owner = await signedUp(url)
  const photo = await owner.assets.upload(new Blob([new Uint8Array(await phonePhoto())]), {
    filename: 'photo.jpg'
  })
  t.same([photo.width, photo.height], [3024, 4032], 'the photo is upright, its stored bytes are not')
  const document = { photo: { src: photo.url, srcset: srcset(photo, 'image/webp') } }
  const { id: pageId, public_id: publicId } = await owner.landingPages.create(document)

  // Chromium finds the host of the URLs that the service returns.
  const browser = await startBrowser(
    t,
    provide('chromium'),
    `--host-resolver-rules=MAP landfall.test ${new URL(url).host}`
  )
  const reader = await browser.newPage({ viewport: { width: 320, height: 640 } })
  const requested: string[] = []
  reader.on('request', (request) => requested.push(request.url()))
  const photoOf = `${url}/landing_pages/${publicId}`
  const seen = await reader.evaluate(async (address) => {
    const page = globalThis as unknown as Page
    const { photo } = await (await page.fetch(address)).json() as { photo: { src: string, srcset: string } }
    page.document.body.innerHTML =
      `<img src="${photo.src}" srcset="${photo.srcset}" sizes="100vw" crossorigin>`
    const image = page.document.querySelector('img') as Image
    await image.decode()
    return { source: image.currentSrc, width: image.naturalWidth, height: image.naturalHeight }
  }, photoOf)
  t.match(seen, { source: /\/w320\.webp$/, width: 320, height: 427 })
  t.notOk(requested.includes(photo.url), 'the original is not downloaded')

  // What Chromium makes of the original has the right orientation and colours.
  const [variant, original] = await reader.evaluate(async (sources) => {
    const page = globalThis as unknown as Page
    const samples = []
    for (const src of sources) {
      page.document.body.innerHTML =
        `<img src="${src}" crossorigin><canvas width="320" height="427"></canvas>`
      const image = page.document.querySelector('img') as Image
      await image.decode()
      const context = (page.document.querySelector('canvas') as Canvas).getContext('2d')
      context.drawImage(image, 0, 0, 320, 427)
      samples.push([...context.getImageData(0, 0, 320, 427).data])
    }
    return samples as [number[], number[]]
  }, [seen.source, photo.url])
  const differences = variant.map((value, index) => Math.abs(value - (original[index] ?? 999)))
  t.ok(differences.reduce((sum, each) => sum + each, 0) / differences.length < 2, 'of 255; WebP is lossy')
  t.ok(differences.every((difference) => difference < 40))

  const { rawPayload } = await app.inject(new URL(seen.source).pathname)
  t.same(metadataOf(rawPayload, 'image/webp'), [])
  const made = await app.metrics.getSingleMetricAsString('landfall_variants_total')
  t.match(made, /made"\} 1\n/, 'the later requests got the file')
  t.equal((await stored(app)).published.length, 2)

  const refused = await t.rejects(owner.assets.delete(photo.id, { ifUnused: true }), ConflictError)
  t.match(refused, { status: 409, errors: [new RegExp(publicId)] })
  t.equal((await app.inject(new URL(seen.source).pathname)).statusCode, 200, 'the page still has its photo')
  await owner.landingPages.delete(pageId)
  await owner.assets.delete(photo.id, { ifUnused: true })
  t.same((await stored(app)).published, [])
})
