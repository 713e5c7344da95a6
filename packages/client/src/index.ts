import createClient from 'openapi-fetch'
import type { paths } from './api.ts'
import { createApiKeys, type ApiKeys } from './api-keys.ts'
import { createAssets, type Assets } from './assets.ts'
import { createAuth, createOpen, createRefresh, type Auth } from './auth.ts'
import { CookieSession } from './cookie-session.ts'
import { createLandingPages, type LandingPages } from './landing-pages.ts'
import { checkBaseUrl, checkCredentials, type LandfallClientOptions } from './options.ts'
import { PublishedDocuments } from './published-documents.ts'
import type { Api } from './responses.ts'
import { Session, type ClientSession } from './session.ts'
import { memoryTokens, noTokens } from './tokens.ts'
import { createTransport, RepeatableRequest } from './transport.ts'
import { createWebhooks, type Webhooks } from './webhooks.ts'

export type { AccountSession, AccountSessions, AccountSettings, AccountSettingsCalls, EmailConfirmations,
  PasswordChange, PasswordReset, Passwords } from './account.ts'
export type { components, operations, paths } from './api.ts'
export type { ApiKey, ApiKeyFields, ApiKeys, NewApiKey, Scope } from './api-keys.ts'
export { srcset, type Asset, type AssetListOptions, type Assets, type AssetWithReferences,
  type DeleteAssetOptions, type UploadOptions } from './assets.ts'
export type { Auth, Credentials, SignUpFields, User } from './auth.ts'
export { ConflictError, InsufficientScopeError, LandfallError, NotFoundError,
  PreconditionFailedError } from './errors.ts'
export type { CacheOptions } from './document-cache.ts'
export { exactJson, type ExactJson } from './exact-json.ts'
export type { OwnDocument, OwnDocuments, PatchOptions } from './documents.ts'
export type { ChangedPagesOptions, LandingPages, LandingPageListOptions, LandingPageSummary, ReadCount,
  ReadsOptions } from './landing-pages.ts'
export type { ApiKeyOptions, LandfallClientOptions, SignInOptions } from './options.ts'
export type { NewPreviewLink, Preview, PreviewLink, PreviewLinkOptions, Previews,
  ReadPreviewOptions } from './previews.ts'
export type { DeletedLandingPage, Publication, Publications, PublishOptions, Schedule,
  ScheduledTimes } from './publication.ts'
export type { PublicDocument } from './published-documents.ts'
export type { ChangeOptions, LandingPage, Receipt, Received, VersionedLandingPage, WaitOptions,
  WriteOptions } from './records.ts'
export type { Revision, Revisions } from './revisions.ts'
export type { Api, CallOptions, List, ListOptions, SearchOptions } from './responses.ts'
export type { RetryOptions } from './retry.ts'
export { memoryTokens, webStorageTokens, type TokenPair, type TokenStorage,
  type WebStorage } from './tokens.ts'
export { verifyWebhook, WebhookVerificationError, type WebhookMessage } from './verify-webhook.ts'
export type { Delivery, NewWebhook, Webhook, WebhookChange, WebhookFields, Webhooks } from './webhooks.ts'

/** The methods of `auth`, `apiKeys` and `webhooks` reject in a client with an API key. */
export interface LandfallClient {
  readonly auth: Auth
  readonly apiKeys: ApiKeys
  readonly landingPages: LandingPages
  readonly assets: Assets
  readonly webhooks: Webhooks
  /**
   * Calls any route by its method and path (see openapi-fetch), with tokens and retries. Its methods return
   * `{ data, error, response }`, also when the service answers with an error. They reject when there is no
   * response, and when the access token can't be renewed.
   */
  readonly api: Api
}

/**
 * Creates a client for one service and one account at a time. It signs in, or has an API key. Its methods
 * reject with a `LandfallError` when the service answers with an error, and take a `signal` that ends the
 * call.
 *
 * @throws {TypeError} when `baseUrl` is not an absolute URL with http or https, or `apiKey` is no API key
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
  const apiKey = checkCredentials(options)
  const createApi = (credentials?: ClientSession | string): Api => {
    const { use: _use, eject: _eject, ...api } = createClient<paths>({
      baseUrl,
      Request: RepeatableRequest,
      fetch: createTransport(baseUrl, fetch, retry, credentials)
    })
    return api
  }
  // With a key too, so that its calls to the account reject before they are sent.
  const anonymousApi = createApi(apiKey)
  const shared = { name: `landfall ${baseUrl}`, onEnded: onSessionEnded }
  const session = options.cookieSession === true
    ? new CookieSession({ ...shared, open: createOpen(anonymousApi) })
    : new Session({
      ...shared,
      storage: apiKey === undefined ? tokens ?? memoryTokens() : noTokens,
      isShared: tokens !== undefined,
      refresh: createRefresh(anonymousApi)
    })
  const api = createApi(apiKey ?? session)
  return {
    auth: createAuth(api, anonymousApi, session),
    apiKeys: createApiKeys(api),
    landingPages: createLandingPages(
      api,
      new PublishedDocuments(api, createTransport(baseUrl, fetch, { maxRetries: 0 }), cache)
    ),
    assets: createAssets(api),
    webhooks: createWebhooks(api),
    api
  }
}
