import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import type { Account } from './app.ts'
import { until } from './until.ts'

// Uploads as bytes: multipart forms, small files, and a connection that sends a form in pieces.

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
      checksum: 'x'
    }))
  })
}

/** Returns random bytes that match no file type. */
export const noise = (size: number): Buffer =>
  Buffer.concat([Buffer.from('zz'), randomBytes(Math.max(0, size - 2))]).subarray(0, size)

export interface RawResponse {
  readonly status: number
  readonly head: string
  readonly body: string
}

/** A connection for requests that an HTTP client can't send. */
export class RawClient {
  readonly socket: Socket
  received = ''
  closed = false

  constructor (url: string) {
    const { hostname, port } = new URL(url)
    this.socket = connect({ host: hostname, port: Number(port) })
    this.socket.on('data', (chunk) => {
      this.received += chunk.toString('latin1')
    })
    this.socket.on('error', () => {})
    this.socket.on('close', () => {
      this.closed = true
    })
  }

  /** Sends the head of an upload. */
  head (account: Pick<Account, 'headers'>, headers: Record<string, string>): void {
    const lines = Object.entries({
      host: 'landfall.test',
      ...account.headers,
      'content-type': FORM,
      ...headers
    })
    this.socket
      .write(`POST /assets HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`)
  }

  write (data: string | Buffer): boolean {
    return this.socket.write(data)
  }

  /** Resolves when the socket can take more data, or is closed. */
  async drained (): Promise<void> {
    await new Promise<void>((resolve) => {
      const done = () => {
        this.socket.off('drain', done).off('close', done)
        resolve()
      }
      this.socket.on('drain', done).on('close', done)
    })
  }

  async response (): Promise<RawResponse> {
    const complete = () => {
      const [head = '', ...rest] = this.received.split('\r\n\r\n')
      const length = /^content-length: (\d+)/im.exec(head)?.[1]
      return length !== undefined && rest.join('\r\n\r\n').length >= Number(length)
    }
    await until(() => this.closed || complete(), 'a whole response')
    const end = this.received.indexOf('\r\n\r\n')
    const head = this.received.slice(0, end)
    return { status: Number(head.split(' ')[1]), head, body: this.received.slice(end + 4) }
  }
}
