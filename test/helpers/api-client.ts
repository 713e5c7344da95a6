import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { createLandfallClient, memoryTokens, type LandfallClient, type LandfallClientOptions,
  type TokenStorage } from '../../packages/client/src/index.ts'
import { buildTestApp, listen, PASSWORD } from './app.ts'

// Runs the service in this process on a real port, and creates accounts for the tests of the client.

let accounts = 0
export const credentials = () => ({
  email: `client-${process.pid}-${++accounts}@example.com`,
  password: PASSWORD
})

export async function startApp (
  t: Test,
  settings: Record<string, string> = {}
): Promise<{ app: FastifyInstance, url: string }> {
  const app = await buildTestApp(t, settings)
  return { app, url: await listen(app) }
}

export interface Sent {
  readonly method: string
  readonly path: string
  readonly headers: Headers
  readonly status: number
}

/** The real `fetch`, with a record of all requests and statuses; `before` may delay a request. */
export function recordingFetch (before: (path: string) => unknown = () => {}) {
  const sent: Sent[] = []
  const fetch = async (url: string, init: RequestInit): Promise<Response> => {
    const path = new URL(url).pathname
    await before(path)
    const response = await globalThis.fetch(url, init)
    sent.push({
      method: init.method ?? 'GET',
      path,
      headers: new Headers(init.headers),
      status: response.status
    })
    return response
  }
  return { fetch, sent, count: (path: string) => sent.filter((one) => one.path === path).length }
}

type Fetch = ReturnType<typeof recordingFetch>['fetch']

/** A `fetch` behind a proxy that loses some responses, and sends a 503 instead. */
export const losing = (fetch: Fetch, isLost: () => boolean): Fetch => async (url, init) => {
  const response = await fetch(url, init)
  return isLost() ? new Response(null, { status: 503, headers: { 'retry-after': '0' } }) : response
}

/** A client that has signed up with a new account. */
export async function signedUp (
  url: string,
  options: Partial<LandfallClientOptions> = {}
): Promise<LandfallClient> {
  const client = createLandfallClient({ baseUrl: url, ...options })
  await client.auth.signUp(credentials())
  return client
}

/** Tokens of a new session whose access token is refused like an expired one. */
export async function expiredTokens (url: string): Promise<TokenStorage> {
  const kept = memoryTokens()
  await signedUp(url, { tokens: kept })
  const { refresh_token: refreshToken } = await kept.load() ?? { refresh_token: '' }
  return memoryTokens({ access_token: 'expired', refresh_token: refreshToken })
}

/** Returns the reason with which a promise was rejected; throws if it was fulfilled. */
export async function failure (promise: Promise<unknown>): Promise<unknown> {
  return await promise.then((value) => {
    throw new Error(`fulfilled with ${JSON.stringify(value)}`)
  }, (error: unknown) => error)
}

/** Counts the calls of `onSessionEnded`. */
export function countedEnds () {
  let count = 0
  return { ends: () => count, onSessionEnded: () => count++ }
}
