import { randomBytes } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { Account } from './app.ts'
import { requestOf } from './raw.ts'

// Uploads as bytes: multipart forms, small files.

export const BOUNDARY = 'landfall-test-boundary'
export const FORM = `multipart/form-data; boundary=${BOUNDARY}`

export const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64'
)
export const GIF = Buffer.from('R0lGODlhAwACAIAAAP///wAAACH5BAEAAAAALAAAAAADAAIAAAIChF0AOw==', 'base64')
export const PDF = Buffer.from('%PDF-1.4\n1 0 obj\n<<>>\nendobj\ntrailer\n<<>>\n%%EOF\n')

export interface Part {
  readonly name?: string
  /** Raw Content-Disposition, which replaces the one made from name and filename. */
  readonly disposition?: string | Buffer
  readonly filename?: string
  readonly type?: string
  readonly content: string | Buffer
}

export const file = (content: string | Buffer, filename = 'a.bin', type?: string): Part => ({
  name: 'asset[file]',
  filename,
  ...(type === undefined ? {} : { type }),
  content
})

export const field = (name: string, content: string, type?: string): Part => ({
  name,
  content,
  ...(type === undefined ? {} : { type })
})

export function partHead ({ name, disposition, filename, type }: Part): Buffer {
  return Buffer.concat([
    Buffer.from(`--${BOUNDARY}\r\nContent-Disposition: `),
    Buffer
      .from(disposition ??
        `form-data; name="${name}"${filename === undefined ? '' : `; filename="${filename}"`}`),
    Buffer.from(`\r\n${type === undefined ? '' : `Content-Type: ${type}\r\n`}\r\n`)
  ])
}

export const END = `--${BOUNDARY}--\r\n`

export const form = (...parts: Part[]): Buffer =>
  Buffer.concat([
    ...parts.flatMap((part) => [partHead(part), Buffer.from(part.content), Buffer.from('\r\n')]),
    Buffer.from(END)
  ])

export async function post (
  app: FastifyInstance,
  account: Account,
  body: Buffer | string | undefined,
  contentType: string | undefined = FORM
) {
  return await app.inject({
    method: 'POST',
    url: '/assets',
    headers: { ...account.headers, ...(contentType === '' ? {} : { 'content-type': contentType }) },
    ...(body === undefined ? {} : { payload: body })
  })
}

export const upload = async (
  app: FastifyInstance,
  account: Account,
  content: string | Buffer,
  filename?: string,
  type?: string
) => await post(app, account, form(file(content, filename, type)))

export const pathOf = (asset: { url: string }): string => new URL(asset.url).pathname

/** Inserts rows of assets without their files. */
export async function insertAssets (
  app: FastifyInstance,
  account: Account,
  keys: readonly string[]
): Promise<void> {
  await app.database.asset.createMany({
    data: keys.map((storageKey) => ({
      userId: account.user.id,
      storageKey,
      filename: 'x',
      contentType: 'image/png',
      byteSize: 1n,
      checksum: '0'.repeat(64)
    }))
  })
}

/** Returns random bytes that match no file type. */
export const noise = (size: number): Buffer =>
  Buffer.concat([Buffer.from('zz'), randomBytes(Math.max(0, size - 2))]).subarray(0, size)

/** Returns the head of an upload whose body is sent in pieces. */
export const uploadHead = (account: { headers: object }, headers: Record<string, string>): string =>
  requestOf('/assets', { ...account.headers, 'content-type': FORM, ...headers }, 'POST')
