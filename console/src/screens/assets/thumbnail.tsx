import { srcset, type Asset } from '@landfall/client'
import { useEffect, useState } from 'preact/hooks'
import { onReturn } from '../../core/visibility.ts'

/** Pictures that are small enough to be their own thumbnails. */
const MAX_ORIGINAL_BYTES = 512 * 1024
const PICTURES = ['image/avif', 'image/gif', 'image/jpeg', 'image/png', 'image/webp']

const MAX_RETRIES = 4
const RETRY_MS = 2000

interface ThumbnailProps {
  readonly asset: Asset
  /** How wide it is shown, as in the attribute `sizes`. */
  readonly sizes: string
}

/** A small copy of a picture, or the type of any other file. The name of the file must stand beside it. */
export function Thumbnail ({ asset, sizes }: ThumbnailProps) {
  const [failures, setFailures] = useState(0)
  const [attempt, setAttempt] = useState(0)
  // A variant is made when it is first asked for. If many are, the service answers 503 for some time.
  useEffect(() => {
    if (failures === 0) return
    if (failures > MAX_RETRIES) {
      return onNextChance(() => {
        setFailures(0)
        setAttempt(0)
      })
    }
    const timer = setTimeout(() => setAttempt(failures), RETRY_MS * failures)
    return () => clearTimeout(timer)
  }, [failures])
  const source = sourceOf(asset)
  if (source === undefined || failures > MAX_RETRIES) {
    return <span class='thumbnail thumbnail--type' aria-hidden='true'>{typeName(asset)}</span>
  }
  // Until then without the sign of a broken picture.
  if (failures > attempt) return <span class='thumbnail' />
  return (
    <img
      class='thumbnail'
      alt=''
      loading='lazy'
      decoding='async'
      // Before `src`, so that the browser chooses once.
      sizes={sizes}
      srcset={source.srcset}
      src={source.src}
      // A new element asks again.
      key={attempt}
      onError={() => setFailures(attempt + 1)}
    />
  )
}

/** Calls `listener` when the person comes back to the tab, or the connection does. Returns what ends this. */
function onNextChance (listener: () => void): () => void {
  const stop = onReturn(listener)
  addEventListener('online', listener)
  return () => {
    stop()
    removeEventListener('online', listener)
  }
}

function sourceOf (asset: Asset): { src: string, srcset: string | undefined } | undefined {
  const [smallest] = asset.variants
  if (smallest !== undefined) {
    return { src: smallest.url, srcset: srcset(asset, 'image/webp') || srcset(asset) }
  }
  const isSmall = PICTURES.includes(asset.content_type) && asset.byte_size <= MAX_ORIGINAL_BYTES
  return isSmall ? { src: asset.url, srcset: undefined } : undefined
}

/** Returns the type of a file in a word, such as `PDF`. */
export function typeName ({ filename, content_type: contentType }: Asset): string {
  const extension = /\.([0-9a-z]{1,5})$/i.exec(filename)?.[1]
  return (extension ?? contentType.replace(/^.*\/|[+;].*$/g, '')).slice(0, 8).toUpperCase()
}
