import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import { createLandfallClient, memoryTokens, type LandfallClient, type LandfallClientOptions, type TokenStorage } from '../../src/client/index.ts'
import { buildTestApp, listen, PASSWORD, testSettings } from '../helpers/app.ts'

let accounts = 0
export const credentials = () => ({ email: `client-${process.pid}-${++accounts}@example.com`, password: PASSWORD })

export async function startApp (t: Test, settings: Record<string, string> = {}): Promise<{ app: FastifyInstance, url: string }> {
  const app = await buildTestApp(t, { settings: { ...await testSettings(t), ...settings } })
  return { app, url: await listen(app) }
}

export interface Sent {
  readonly method: string
  readonly path: string
  readonly headers: Headers
  readonly status: number
}

/** The real `fetch`, which notes what was sent and answered; `before` may hold a request up. */
export function recordingFetch (before: (path: string) => unknown = () => {}) {
  const sent: Sent[] = []
  const fetch = async (url: string, init: RequestInit): Promise<Response> => {
    const path = new URL(url).pathname
    await before(path)
    const response = await globalThis.fetch(url, init)
    sent.push({ method: init.method ?? 'GET', path, headers: new Headers(init.headers), status: response.status })
    return response
  }
  return { fetch, sent, count: (path: string) => sent.filter((one) => one.path === path).length }
}

/** A client with an account of its own. */
export async function signedUp (url: string, options: Partial<LandfallClientOptions> = {}): Promise<LandfallClient> {
  const client = createLandfallClient({ baseUrl: url, ...options })
  await client.auth.signUp(credentials())
  return client
}

/** Tokens of a new session whose access token is refused, as one that has expired is. */
export async function expiredTokens (url: string): Promise<TokenStorage> {
  const kept = memoryTokens()
  await signedUp(url, { tokens: kept })
  const { refresh_token: refreshToken } = await kept.load() ?? { refresh_token: '' }
  return memoryTokens({ access_token: 'expired', refresh_token: refreshToken })
}

/** What a promise was rejected with. */
export async function failure (promise: Promise<unknown>): Promise<unknown> {
  return await promise.then((value) => { throw new Error(`it succeeded, with ${JSON.stringify(value)}`) }, (error: unknown) => error)
}
