import createClient from 'openapi-fetch'
import type { paths } from './api.ts'
import { createAssets, type Assets } from './assets.ts'
import { createAuth, createRefresh, type Auth } from './auth.ts'
import type { CacheOptions } from './document-cache.ts'
import { createLandingPages, type LandingPages } from './landing-pages.ts'
import { PublishedDocuments } from './published-documents.ts'
import type { Api } from './responses.ts'
import type { RetryOptions } from './retry.ts'
import { Session } from './session.ts'
import { memoryTokens, type TokenStorage } from './tokens.ts'
import { createTransport, RepeatableRequest, type Fetch } from './transport.ts'

export type { components, operations, paths } from './api.ts'
export type { Asset, Assets, UploadOptions } from './assets.ts'
export type { Auth, Credentials, SignUpFields, User } from './auth.ts'
export { ConflictError, LandfallError, PreconditionFailedError } from './errors.ts'
export type { CacheOptions } from './document-cache.ts'
export { exactJson, type ExactJson } from './exact-json.ts'
export type { OwnDocument, OwnDocuments, PatchOptions } from './documents.ts'
export type { LandingPages, ReadCount, ReadsOptions } from './landing-pages.ts'
export type { PublicDocument } from './published-documents.ts'
export type { LandingPage, VersionedLandingPage, WriteOptions } from './records.ts'
export type { Revision, Revisions } from './revisions.ts'
export type { Api, CallOptions, List, ListOptions } from './responses.ts'
export type { RetryOptions } from './retry.ts'
export { memoryTokens, webStorageTokens, type TokenPair, type TokenStorage,
  type WebStorage } from './tokens.ts'

export interface LandfallClientOptions {
  /** The address of the service, such as `https://pages.example.com`. */
  readonly baseUrl: string
  /** Replaces the global `fetch`. */
  readonly fetch?: Fetch
  /** Where the tokens are kept. Default: in memory. */
  readonly tokens?: TokenStorage
  /**
   * Called once when a call detects that the session is over, because the refresh token was refused or
   * another tab has signed out.
   */
  readonly onSessionEnded?: () => void
  /** The limits of retries. `{ maxRetries: 0 }` turns retries off. */
  readonly retry?: RetryOptions
  /** The cache of published documents. An unchanged document in it is not transferred again. */
  readonly cache?: CacheOptions
}

export interface LandfallClient {
  readonly auth: Auth
  readonly landingPages: LandingPages
  readonly assets: Assets
  /**
   * Calls any route by its method and path (see openapi-fetch), with tokens and retries. Its methods return
   * `{ data, error, response }`, also when the service answers with an error. They reject when there is no
   * answer, and when the access token can't be renewed.
   */
  readonly api: Api
}

/**
 * Creates a client for one service and one account at a time. Its methods reject with a `LandfallError` when
 * the service answers with an error, and take a `signal` that ends the call.
 *
 * @throws {TypeError} when `baseUrl` is not an absolute URL with http or https
 */
export function createLandfallClient (options: LandfallClientOptions): LandfallClient {
  const {
    // Looked up at each request, because tests and polyfills may replace it.
    fetch = async (url, init) => await globalThis.fetch(url, init),
    tokens,
    onSessionEnded = () => {},
    retry = {},
    cache
  } = options
  const baseUrl = checkBaseUrl(options.baseUrl)
  const createApi = (session?: Session): Api => {
    const { use: _use, eject: _eject, ...api } = createClient<paths>({
      baseUrl,
      Request: RepeatableRequest,
      fetch: createTransport(baseUrl, fetch, retry, session)
    })
    return api
  }
  const anonymousApi = createApi()
  const session = new Session({
    storage: tokens ?? memoryTokens(),
    isShared: tokens !== undefined,
    name: `landfall ${baseUrl}`,
    refresh: createRefresh(anonymousApi),
    onEnded: onSessionEnded
  })
  const api = createApi(session)
  return {
    auth: createAuth(api, anonymousApi, session),
    landingPages: createLandingPages(
      api,
      new PublishedDocuments(api, createTransport(baseUrl, fetch, { maxRetries: 0 }), cache)
    ),
    assets: createAssets(api),
    api
  }
}

/** Returns the base URL without slashes at its end. @throws {TypeError} */
function checkBaseUrl (baseUrl: string): string {
  if (!/^https?:\/\//i.test(baseUrl) || !URL.canParse(baseUrl)) {
    throw new TypeError(`baseUrl must be a URL that starts with http:// or https://, such as https://pages.example.com, not "${baseUrl}"`)
  }
  return baseUrl.replace(/\/+$/, '')
}
