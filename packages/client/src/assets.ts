import type { components } from './api.ts'
import { iterate, unwrap, unwrapDeletion, unwrapList, type Api, type CallOptions, type List,
  type SearchOptions } from './responses.ts'

export type Asset = components['schemas']['Asset']
/** An asset with the pages that use it. */
export type AssetWithReferences = components['schemas']['AssetWithReferences']

export interface AssetListOptions extends SearchOptions<'created' | 'filename' | 'byte_size'> {
  /** Only files of this type. `document`: PDF, text and office files. */
  readonly type?: 'image' | 'audio' | 'video' | 'font' | 'document' | 'other' | undefined
}

export interface UploadOptions extends CallOptions {
  /** Replaces the name of the file. A `Blob` has no name. */
  readonly filename?: string
}

export interface DeleteAssetOptions extends CallOptions {
  /** Keeps the file if a page uses it. The call then rejects with a `ConflictError` that names the pages. */
  readonly ifUnused?: boolean
}

/** The files of the account. */
export interface Assets {
  /** Uploads a `File` or `Blob`. In Node, `fs.openAsBlob(path)` returns one that is read while it is sent. */
  upload(file: Blob, options?: UploadOptions): Promise<Asset>
  get(id: string, options?: CallOptions): Promise<AssetWithReferences>
  /** Iterates over all assets, or those with a text or of a type. */
  list(options?: AssetListOptions): AsyncGenerator<Asset, void, undefined>
  /** Returns one part of the list. */
  listPage(options?: AssetListOptions): Promise<List<Asset>>
  delete(id: string, options?: DeleteAssetOptions): Promise<void>
}

/**
 * Returns the variants of a picture for the attribute `srcset` of `<source>` or `<img>`. Give the largest
 * picture, `asset.url`, as `src`.
 *
 * @param contentType takes only variants of this type. Default: the picture's own type if it has variants of
 *   that type, else WebP
 * @returns an empty string if there are none
 */
export function srcset (asset: Pick<Asset, 'content_type' | 'variants'>, contentType?: string): string {
  const ofType = (type: string) => asset.variants.filter((variant) => variant.content_type === type)
  const own = ofType(contentType ?? asset.content_type)
  const chosen = own.length === 0 && contentType === undefined ? ofType('image/webp') : own
  return chosen.map(({ url, width }) => `${url} ${width}w`).join(', ')
}

/** Without these options, Node keeps a copy of the whole body in memory in case of a redirect. */
const NO_REDIRECT = { redirect: 'error', window: null } as const

export function createAssets (api: Api): Assets {
  const listPage = async ({ signal, ...query }: AssetListOptions = {}) =>
    await unwrapList(api.GET('/assets', { params: { query }, signal }))
  return {
    async upload (file, { filename = (file as { name?: string }).name ?? 'file', signal } = {}) {
      const form = createForm(file, filename)
      return (await unwrap(api.POST('/assets', {
        body: { 'asset[file]': filename },
        bodySerializer: () => form,
        headers: { 'content-type': form.type },
        signal,
        ...NO_REDIRECT
      }))).data
    },
    async get (id, { signal } = {}) {
      return (await unwrap(api.GET('/assets/{id}', { params: { path: { id } }, signal }))).data
    },
    list: (options = {}) => iterate(listPage, options),
    listPage,
    async delete (id, { ifUnused = false, signal } = {}) {
      const params = { path: { id }, query: ifUnused ? { if_unused: 'true' as const } : {} }
      await unwrapDeletion(api.DELETE('/assets/{id}', { params, signal }))
    }
  }
}

/**
 * Makes the form of an upload. With a `FormData`, Node 24 would read the whole file into memory, and crash if
 * the service answers early (https://github.com/nodejs/undici/issues/5835).
 */
function createForm (file: Blob, filename: string): Blob {
  const boundary = crypto.randomUUID()
  const escapes: Record<string, string> = { '"': '%22', '\r': '%0D', '\n': '%0A' } // as browsers do
  const escaped = filename.replace(/["\r\n]/g, (character) => escapes[character] ?? '')
  const head = [
    `--${boundary}`,
    `Content-Disposition: form-data; name="asset[file]"; filename="${escaped}"`,
    `Content-Type: ${file.type || 'application/octet-stream'}`,
    '\r\n'
  ]
  return new Blob([head.join('\r\n'), file, `\r\n--${boundary}--\r\n`], {
    type: `multipart/form-data; boundary=${boundary}`
  })
}
