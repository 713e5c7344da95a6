import { once } from 'node:events'
import { request, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { buffer } from 'node:stream/consumers'
import type { Test } from 'tap'
import { documentTag, PASSWORD, type CreatedPage } from './app.ts'

// Calls a running service over HTTP as the owner of an account.

export interface Response {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** Parses the text. */
  json<Body = any>(): Body
}

/** An uploaded file. */
export interface StoredAsset {
  readonly id: string
  readonly url: string
  /** The path of the URL. */
  readonly path: string
  readonly checksum: string
}

/** An account, which calls any replica. */
export class Owner {
  readonly email: string
  accessToken: string
  refreshToken: string

  private constructor (email: string, accessToken: string, refreshToken: string) {
    this.email = email
    this.accessToken = accessToken
    this.refreshToken = refreshToken
  }

  /** @param url URL of any replica */
  static async signUp (url: string): Promise<Owner> {
    const email = `owner-${process.pid}-${++accounts}@example.com`
    const user = { email, password: PASSWORD, password_confirmation: PASSWORD }
    return Owner.#of(email, await call('POST', `${url}/auth/sign_up`, { json: { user } }), 201)
  }

  /** Begins another session of an account. */
  static async signIn (url: string, email: string): Promise<Owner> {
    const user = { email, password: PASSWORD }
    return Owner.#of(email, await call('POST', `${url}/auth/sign_in`, { json: { user } }), 200)
  }

  static #of (email: string, answer: Response, status: number): Owner {
    expectStatus(answer, status)
    const { access_token: accessToken, refresh_token: refreshToken } = answer.json()
    return new Owner(email, accessToken, refreshToken)
  }

  /** Returns the status of a sign-in with the password, without keeping the tokens. */
  async signInStatus (url: string, password = PASSWORD): Promise<number> {
    const user = { email: this.email, password }
    return (await call('POST', `${url}/auth/sign_in`, { json: { user } })).status
  }

  /** Spends the refresh token, and keeps the tokens that replace it. Returns the status. */
  async refresh (url: string): Promise<number> {
    const answer = await call('POST', `${url}/auth/refresh`, { json: { refresh_token: this.refreshToken } })
    if (answer.status === 200) {
      const tokens = answer.json<{ access_token: string, refresh_token: string }>()
      ;[this.accessToken, this.refreshToken] = [tokens.access_token, tokens.refresh_token]
    }
    return answer.status
  }

  /** Ends the session. Returns the status. */
  async signOut (url: string): Promise<number> {
    const json = { refresh_token: this.refreshToken }
    return (await this.call('DELETE', `${url}/auth/sign_out`, { json })).status
  }

  /** Returns the status of a request with the access token: 401 when it is no longer valid. */
  async accessStatus (url: string): Promise<number> {
    return (await this.call('GET', `${url}/auth/me`)).status
  }

  /** Calls a management route with the access token. Its ETag is that of the uncompressed response. */
  async call (method: string, url: string, options: CallOptions = {}): Promise<Response> {
    const headers = { authorization: `Bearer ${this.accessToken}`, 'accept-encoding': 'identity' }
    return await call(method, url, { ...options, headers: { ...headers, ...options.headers } })
  }

  /** Creates an API key. */
  async createKey (url: string, scopes: readonly string[], name = 'Nightly build'): Promise<string> {
    const answer = await this.call('POST', `${url}/api_keys`, {
      json: { name, scopes, current_password: PASSWORD }
    })
    expectStatus(answer, 201)
    return answer.json().key
  }

  /** Creates a page whose document is exactly the JSON text `document`. */
  async createPage (url: string, document: string): Promise<CreatedPage> {
    const answer = await this.call('POST', `${url}/landing_pages`, { text: `{"current_data":${document}}` })
    expectStatus(answer, 201)
    const { id, public_id: publicId } = answer.json<CreatedPage>()
    const recordTag = answer.headers.get('etag') as string
    return { id, public_id: publicId, etag: documentTag(recordTag), recordTag }
  }

  /** Replaces a page's document. */
  async update (url: string, id: string, document: string): Promise<Response> {
    return await this.call('PATCH', `${url}/manage/landing_pages/${id}`, {
      text: `{"current_data":${document}}`
    })
  }

  /** Uploads a file, which has to succeed. */
  async store (url: string, bytes: Uint8Array, filename?: string): Promise<StoredAsset> {
    const answer = await this.upload(url, bytes, filename)
    expectStatus(answer, 201)
    const asset = answer.json<StoredAsset>()
    return { ...asset, path: new URL(asset.url).pathname }
  }

  /** Uploads a file. */
  async upload (url: string, bytes: Uint8Array, filename = 'file.bin'): Promise<Response> {
    const form = new FormData()
    form.append('asset[file]', new Blob([Uint8Array.from(bytes)]), filename)
    return await this.call('POST', `${url}/assets`, { form })
  }
}

let accounts = 0

export interface CallOptions {
  readonly headers?: Record<string, string>
  /** A body that is serialised. */
  readonly json?: unknown
  /** A body that is JSON text. */
  readonly text?: string
  readonly form?: FormData
}

/** Sends a request and reads the whole response. */
export async function call (
  method: string,
  url: string,
  { headers = {}, json, text, form }: CallOptions = {}
): Promise<Response> {
  const body = form ?? text ?? (json === undefined ? undefined : JSON.stringify(json))
  const type = typeof body === 'string' ? { 'content-type': 'application/json' } : undefined
  const response = await fetch(url, {
    method,
    headers: { ...type, ...headers },
    ...(body !== undefined && { body })
  })
  const content = await response.text()
  return {
    status: response.status,
    headers: response.headers,
    text: content,
    json: () => JSON.parse(content)
  }
}

export interface RawResponse {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

export interface AskOptions {
  readonly method?: string
  readonly headers?: Record<string, string>
  /** The address of the client. */
  readonly from?: string
  readonly body?: Buffer | string
}

/** Sends a request on a connection of its own, and reads the response without decoding it. */
export async function ask (url: string, path: string, options: AskOptions = {}): Promise<RawResponse> {
  const { from, body, ...rest } = options
  // The path is not a part of a URL, which would be normalized.
  const { hostname, port, pathname } = new URL(url)
  const address = { hostname, port, path: path || pathname, agent: false, ...from && { localAddress: from } }
  const sent = request({ ...address, ...rest }).end(body)
  sent.on('error', () => {}) // a server that refuses a large body may close the connection before its end
  const [response] = await once(sent, 'response') as [IncomingMessage]
  return { status: response.statusCode as number, headers: response.headers, body: await buffer(response) }
}

function expectStatus (answer: Response, status: number): void {
  if (answer.status !== status) {
    throw new Error(`status ${answer.status} instead of ${status}: ${answer.text}`)
  }
}

/** Asserts that the console works at the address of a proxy, for no page of another host or port. */
export async function checkConsoleOrigin (t: Test, url: string): Promise<void> {
  for (
    const [origin, status] of [
      [url, 204], // allowed, but without a cookie
      [url.replace(/:\d+$/, ''), 403],
      ['http://evil.example', 403]
    ] as const
  ) {
    const { host } = new URL(origin)
    const headers = { origin, 'x-forwarded-host': host, forwarded: `host=${host}` }
    t.equal((await call('POST', `${url}/auth/browser_session`, { headers })).status, status, origin)
  }
}
