import type { components } from './api.ts'
import { deleted, itemsOf, nextCursor, unwrap, type Api, type CallOptions, type List, type ListOptions } from './answers.ts'

export type Asset = components['schemas']['Asset']

export interface UploadOptions extends CallOptions {
  /** Instead of the file's own name; a Blob has none. */
  readonly filename?: string
}

/** The files of the account. */
export interface Assets {
  /**
   * Uploads a file: a `File` of an input or drop, or a `Blob`. In Node `fs.openAsBlob(path)` makes one that is read
   * while it is sent.
   */
  upload (file: Blob, options?: UploadOptions): Promise<Asset>
  get (id: string, options?: CallOptions): Promise<Asset>
  /** All assets, newest first. */
  list (options?: ListOptions): AsyncGenerator<Asset, void, undefined>
  /** One part of them. */
  listPage (options?: ListOptions): Promise<List<Asset>>
  delete (id: string, options?: CallOptions): Promise<void>
}

/**
 * Node keeps a second copy of a body in memory, all of it, for the case that it has to follow a redirect. By these it
 * knows that it never will.
 */
const SENT_ONCE = { redirect: 'error', window: null } as const

export function assetsOf (api: Api): Assets {
  const listPage = async ({ limit, cursor, signal }: ListOptions = {}): Promise<List<Asset>> => {
    const { data, response } = await unwrap(api.GET('/assets', { params: { query: { limit, cursor } }, signal }))
    return { items: data, next: nextCursor(response) }
  }
  return {
    async upload (file, { filename = (file as { name?: string }).name ?? 'file', signal } = {}) {
      const form = new FormData()
      form.append('asset[file]', file, filename)
      return (await unwrap(api.POST('/assets', { body: { 'asset[file]': filename }, bodySerializer: () => form, signal, ...SENT_ONCE }))).data
    },
    async get (id, { signal } = {}) {
      return (await unwrap(api.GET('/assets/{id}', { params: { path: { id } }, signal }))).data
    },
    list: (options = {}) => itemsOf(listPage, options),
    listPage,
    async delete (id, { signal } = {}) {
      await deleted(api.DELETE('/assets/{id}', { params: { path: { id } }, signal }))
    }
  }
}
