import { createLandfallClient } from '@landfall/client'

const baseUrl = process.env.LANDFALL_URL ?? 'http://localhost:3000'

export const PREVIEW_COOKIE = 'landfall-preview'
/** The tag of all pages in the cache of Next.js. */
export const ALL_PAGES = 'landfall'
/** The tag of one page. */
export const tagOf = (publicId) => `${ALL_PAGES}/${publicId}`

/** Reads published pages through the cache of Next.js, until a webhook says that they have changed. */
export const published = createLandfallClient({
  baseUrl,
  fetch: (url, init) => {
    // Next.js keeps a response for each URL and its headers. A 304 would be useless to it.
    init.headers.delete('if-none-match')
    const tags = [ALL_PAGES, tagOf(url.split('/').at(-1))]
    // The hour is for changes whose message got lost.
    return fetch(url, { ...init, next: { tags, revalidate: 3600 } })
  }
})

/** Reads drafts, which are never cached. */
export const previews = createLandfallClient({ baseUrl })
