import type { Asset } from '@landfall/client'
import { useEffect, useState } from 'preact/hooks'
import { landfall } from '../../../core/service.ts'
import { pictureKeyOf } from '../../../fields/pictures.ts'
import { takeFirst } from '../../../core/take-first.ts'

/** Pictures that are looked through, the newest first. */
const MAX_LOOKED_AT = 500
const PART = 100

/** Finds the records of pictures by their addresses, which no route does. */
export class AssetFinder {
  readonly #found = new Map<string, Asset>()
  readonly #listeners = new Set<() => void>()
  #search: Promise<void> | undefined

  /** Returns the record of the picture at an address, if it is known. */
  get (url: string): Asset | undefined {
    return this.#found.get(pictureKeyOf(url)?.key ?? '')
  }

  /** Keeps a record, such as that of a picture that was just uploaded. */
  add (asset: Asset): void {
    const key = pictureKeyOf(asset.url)?.key
    if (key !== undefined) this.#found.set(key, asset)
  }

  /** Loads the records of the account's pictures, once. Without them, pictures are shown all the same. */
  load (): void {
    this.#search ??= takeFirst(landfall.assets.list({ type: 'image', limit: PART }), MAX_LOOKED_AT)
      .then(({ items }) => {
        for (const asset of items) this.add(asset)
        for (const listener of [...this.#listeners]) listener()
      }, () => {
        this.#search = undefined
      })
  }

  subscribe (listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }
}

/** Returns the record of the picture at an address, as soon as it is known. */
export function useAsset (assets: AssetFinder, url: string): Asset | undefined {
  const [, setCount] = useState(0)
  useEffect(() => assets.subscribe(() => setCount((count) => count + 1)), [])
  const isPicture = pictureKeyOf(url) !== undefined
  useEffect(() => {
    if (isPicture && assets.get(url) === undefined) assets.load()
  }, [url])
  return assets.get(url)
}
