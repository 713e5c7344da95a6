import type { Asset } from '@landfall/client'
import { useEffect, useState } from 'preact/hooks'
import { landfall } from '../../../core/service.ts'
import { useSettings } from '../../../core/settings.ts'
import { pictureKeyOf } from '../../../fields/pictures.ts'

/** A page may have a lot of pictures. Those beyond are shown without their records. */
const MAX_REQUESTS = 100
const MAX_RUNNING = 4

/** Finds the records of pictures by their addresses. */
export class AssetFinder {
  readonly #found = new Map<string, Asset>()
  readonly #asked = new Set<string>()
  readonly #listeners = new Set<() => void>()
  readonly #waiting: string[] = []
  #running = 0

  /** Returns the record of the picture at an address, if it is known. */
  get (url: string): Asset | undefined {
    return this.#found.get(pictureKeyOf(url)?.key ?? '')
  }

  /** Keeps a record, such as that of a picture that was just uploaded. */
  add (asset: Asset): void {
    const key = pictureKeyOf(asset.url)?.key
    if (key !== undefined) this.#found.set(key, asset)
  }

  /** Asks for the record of a picture, once. */
  load (url: string): void {
    const key = pictureKeyOf(url)?.key
    if (key === undefined || this.#found.has(key) || this.#asked.has(key)) return
    if (this.#asked.size === MAX_REQUESTS) return
    this.#asked.add(key)
    this.#waiting.push(key)
    this.#askNext()
  }

  subscribe (listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #askNext (): void {
    if (this.#running === MAX_RUNNING) return
    const key = this.#waiting.shift()
    if (key === undefined) return
    this.#running++
    landfall.assets.listPage({ q: key, limit: 1 }).then(({ items }) => {
      for (const asset of items) this.add(asset)
      for (const listener of [...this.#listeners]) listener()
    }, () => {
      this.#asked.delete(key) // the picture is shown all the same
    }).finally(() => {
      this.#running--
      this.#askNext()
    })
  }
}

/** Whether a text is the address of a picture that can be shown, and its record as soon as it is known. */
export function usePicture (assets: AssetFinder, text: string): {
  readonly isPicture: boolean
  readonly asset: Asset | undefined
} {
  const { base_url: baseUrl } = useSettings()
  const [, setCount] = useState(0)
  useEffect(() => assets.subscribe(() => setCount((count) => count + 1)), [])
  useEffect(() => assets.load(text), [text])
  const asset = assets.get(text)
  const folder = pictureKeyOf(text)?.folder
  const uploads = `${baseUrl}/uploads/`
  // The policy of the console refuses pictures of others.
  const isOwn = folder !== undefined && [uploads, new URL(uploads).pathname].includes(folder)
  return { isPicture: asset !== undefined || isOwn, asset }
}
