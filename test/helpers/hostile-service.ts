import { pino } from 'pino'
import type { Test } from 'tap'
import { file, form, FORM, PNG } from './assets.ts'
import { buildTestApp, createPage, listen, signUp, type CreatedPage } from './app.ts'
import { Connection, requestOf, whyNoError, type RawResponse } from './raw.ts'

// Runs a service for hostile input, and checks the connection after each response.

/** High limits, so that requests are refused for their content and not for their number. */
export const GENEROUS = {
  RATE_LIMIT_PUBLIC: '1000000000',
  SIGN_IN_FAILURES_PER_ACCOUNT: '1000000',
  SIGN_IN_FAILURES_PER_ADDRESS: '1000000',
  SIGN_UPS_PER_ADDRESS: '1000000',
  REFRESHES_PER_ADDRESS: '1000000',
  MAX_EVENT_LOOP_DELAY_MS: '0'
}

export interface Route {
  readonly name: string
  readonly method: string
  readonly path: string
  /** Whether the route needs an access token. */
  readonly owned: boolean
  /** The kind of body that the route reads. */
  readonly takes: 'json' | 'form' | 'nothing'
}

/** Starts a service with one page and one asset. The test fails if the service logs an error. */
export async function hostileService (t: Test, settings: Record<string, string> = {}) {
  const errors: string[] = []
  const logger = pino({ level: 'error' }, {
    write: (line: string) => {
      errors.push(line)
    }
  })
  const app = await buildTestApp(t, { ...GENEROUS, ...settings }, logger)
  t.teardown(() => {
    if (errors.length === 0) return
    // Assertions are not possible any more, and an error would keep other teardowns from running.
    console.error(`errors were logged: ${errors.join('').slice(0, 2000)}`)
    process.exitCode = 1
  })
  const url = await listen(app)
  const account = await signUp(app)
  const page = await createPage(app, account)
  const uploaded = await app.inject({
    method: 'POST',
    url: '/assets',
    headers: { ...account.headers, 'content-type': FORM },
    payload: form(file(PNG, 'a.png', 'image/png'))
  })
  const { id, url: address } = uploaded.json() as { id: string, url: string }
  const asset = { id, path: new URL(address).pathname }
  return { app, url, account, page, asset, routes: routesOf(page, asset) }
}

function routesOf (page: CreatedPage, asset: { id: string, path: string }): Route[] {
  const record = `/manage/landing_pages/${page.id}`
  const document = `/landing_pages/${page.public_id}`
  const routes: [string, string, string, boolean, Route['takes']?][] = [
    ['sign-up', 'POST', '/auth/sign_up', false, 'json'],
    ['sign-in', 'POST', '/auth/sign_in', false, 'json'],
    ['refresh', 'POST', '/auth/refresh', false, 'json'],
    ['sign-out', 'DELETE', '/auth/sign_out', true, 'json'],
    ['create', 'POST', '/landing_pages', true, 'json'],
    ['update', 'PATCH', record, true, 'json'],
    ['upload', 'POST', '/assets', true, 'form'],
    ['me', 'GET', '/auth/me', true],
    ['pages', 'GET', '/manage/landing_pages', true],
    ['page', 'GET', record, true],
    ['assets', 'GET', '/assets', true],
    ['asset', 'GET', `/assets/${asset.id}`, true],
    ['public', 'GET', document, false],
    ['public head', 'HEAD', document, false],
    ['file', 'GET', asset.path, false],
    ['live', 'GET', '/health/live', false],
    ['ready', 'GET', '/health/ready', false],
    // Last, because they succeed only once.
    ['delete page', 'DELETE', record, true],
    ['delete asset', 'DELETE', `/assets/${asset.id}`, true]
  ]
  return routes.map(([name, method, path, owned, takes = 'nothing']) => ({
    name,
    method,
    path,
    owned,
    takes
  }))
}

/** Sends requests and checks the connection after each response. */
export class Probe {
  readonly #url: string
  readonly #t: Test
  #connection: Connection | undefined

  constructor (t: Test, url: string) {
    this.#t = t
    this.#url = url
    t.teardown(() => {
      this.#connection?.socket.destroy()
    })
  }

  /**
   * Sends bytes and returns the response. Asserts that the connection then answers another request, or that
   * the response has `Connection: close` and the connection is closed without further bytes.
   */
  async send (bytes: string | Buffer, what: string, method = 'GET'): Promise<RawResponse> {
    const connection = this.#connection ??= new Connection(this.#url)
    connection.send(bytes)
    let response = await connection.response(method)
    if (response.status === 100) response = await connection.response(method)
    if (/\r\nconnection: close\r\n/i.test(response.head)) {
      this.#connection = undefined
      connection.socket.end() // the server may be waiting for the rest of a body
      const rest = await connection.rest()
      if (rest !== '') this.#t.fail(`${what}: ${JSON.stringify(rest.slice(0, 300))} follows the response`)
    } else {
      connection.send(requestOf('/health/live', { 'X-Request-Id': 'afterwards' }))
      const next = await connection.response()
      if (next.status !== 200 || !next.head.includes('\r\nx-request-id: afterwards\r\n')) {
        this.#t.fail(`${what}: the next request was answered with ${next.head}`)
      }
    }
    if (response.status >= 500 && response.status !== 501) this.#t.fail(`${what}: ${response.status}`)
    return response
  }

  /** Like `send`. Asserts the status and, from 400 on, the form of the body. */
  async expect (bytes: string | Buffer, status: number, what: string, method = 'GET'): Promise<RawResponse> {
    const response = await this.send(bytes, what, method)
    const seen = `${response.status} ${response.body.toString('latin1').slice(0, 100)}`
    this.#t.equal(response.status, status, `${what}: ${seen}`)
    const problem = status < 400 || method === 'HEAD' ? undefined : whyNoError(response)
    if (problem !== undefined) this.#t.fail(`${what}: the response ${problem}`)
    return response
  }
}
