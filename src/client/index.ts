import createClient from 'openapi-fetch'
import type { Api } from './answers.ts'
import type { paths } from './api.ts'
import { assetsOf, type Assets } from './assets.ts'
import { authOf, refreshWith, type Auth } from './auth.ts'
import type { CacheOptions } from './etag-cache.ts'
import { landingPagesOf, type LandingPages } from './landing-pages.ts'
import type { RetryOptions } from './retry.ts'
import { Session } from './session.ts'
import { memoryTokens, type TokenStorage } from './tokens.ts'
import { RepeatableRequest, transport, type Fetch } from './transport.ts'

export type { components, operations, paths } from './api.ts'
export type { Asset, Assets, UploadOptions } from './assets.ts'
export type { Auth, Credentials, SignUpFields, User } from './auth.ts'
export { LandfallError, PreconditionFailedError } from './errors.ts'
export type { CacheOptions } from './etag-cache.ts'
export { exactJson, type ExactJson } from './exact-json.ts'
export type { LandingPage, LandingPages, PublicDocument, VersionedLandingPage, WriteOptions } from './landing-pages.ts'
export type { Api, CallOptions, List, ListOptions } from './answers.ts'
export type { RetryOptions } from './retry.ts'
export { memoryTokens, webStorageTokens, type TokenPair, type TokenStorage, type WebStorage } from './tokens.ts'

export interface LandfallClientOptions {
  /** Where the service is, such as `https://pages.example.com`. */
  readonly baseUrl: string
  /** Instead of the global `fetch`. */
  readonly fetch?: Fetch
  /** Where the tokens are kept; in memory unless said otherwise. */
  readonly tokens?: TokenStorage
  /**
   * Told once, by the first call that finds it, that a session has ended by itself: the refresh token was refused, or
   * another tab has signed out.
   */
  readonly onSessionEnded?: () => void
  /** How answers that ask to come again are met; `{ maxRetries: 0 }` gives them to the caller at once. */
  readonly retry?: RetryOptions
  /** How many documents of public reads are kept, so that a 304 is enough to read them again. */
  readonly cache?: CacheOptions
}

export interface LandfallClient {
  readonly auth: Auth
  readonly landingPages: LandingPages
  readonly assets: Assets
  /**
   * Every route as the OpenAPI document has it (see openapi-fetch), with tokens and repetitions, but giving
   * `{ data, error, response }` where the other methods reject for what the service has answered. It rejects all the
   * same when there is no answer to give: what `fetch` throws, a `LandfallError` when the access token had to be renewed
   * and the service couldn't, a `TimeoutError` when that took more than half a minute.
   */
  readonly api: Api
}

/**
 * A client of one service and one account at a time. Every method rejects with a `LandfallError` when the answer is no
 * success, and takes a `signal` that ends it.
 */
export function createLandfallClient (options: LandfallClientOptions): LandfallClient {
  const { fetch = async (url, init) => await globalThis.fetch(url, init), tokens, onSessionEnded = () => {}, retry = {}, cache } = options
  const baseUrl = options.baseUrl.replace(/\/+$/, '')
  const clientWith = (session?: Session): Api => {
    const { use: _use, eject: _eject, ...api } = createClient<paths>({ baseUrl, Request: RepeatableRequest, fetch: transport(baseUrl, fetch, retry, session) })
    return api
  }
  const bare = clientWith()
  const session = new Session({
    storage: tokens ?? memoryTokens(),
    isShared: tokens !== undefined,
    name: `landfall ${baseUrl}`,
    refresh: refreshWith(bare),
    onEnded: onSessionEnded
  })
  const api = clientWith(session)
  return { auth: authOf(api, bare, session), landingPages: landingPagesOf(api, cache), assets: assetsOf(api), api }
}
