import type { CacheOptions } from './document-cache.ts'
import type { RetryOptions } from './retry.ts'
import type { TokenStorage } from './tokens.ts'
import type { Fetch } from './transport.ts'

interface CommonOptions {
  /** The address of the service, such as `https://pages.example.com`. */
  readonly baseUrl: string
  /** Replaces the global `fetch`. */
  readonly fetch?: Fetch
  /** The limits of retries. `{ maxRetries: 0 }` turns retries off. */
  readonly retry?: RetryOptions
  /** The cache of published documents. An unchanged document in it is not transferred again. */
  readonly cache?: CacheOptions
}

/** The options of a client that signs in. */
export interface SignInOptions extends CommonOptions {
  /** Where the tokens are kept. Default: in memory. */
  readonly tokens?: TokenStorage
  /**
   * Keeps the refresh token in a cookie that no script can read, and the access token in memory. Only for
   * pages that the service serves itself. Can't be used with `tokens`.
   */
  readonly cookieSession?: boolean
  /**
   * Called once when a call detects that the session is over, because the refresh token was refused or
   * another tab has signed out. With `cookieSession`, also when another tab has signed in to another account.
   */
  readonly onSessionEnded?: () => void
  readonly apiKey?: never
}

/** The options of a client for a program, which has an API key instead of a session. */
export interface ApiKeyOptions extends CommonOptions {
  /** Gives access to pages and assets within its scopes, never to the account. */
  readonly apiKey: string
  readonly tokens?: never
  readonly cookieSession?: never
  readonly onSessionEnded?: never
}

export type LandfallClientOptions = SignInOptions | ApiKeyOptions

/** Returns the base URL without slashes at its end. @throws {TypeError} */
export function checkBaseUrl (baseUrl: string): string {
  if (!/^https?:\/\//i.test(baseUrl) || !URL.canParse(baseUrl)) {
    throw new TypeError('baseUrl must be a URL that starts with http:// or https://, such as ' +
      `https://pages.example.com, not "${baseUrl}"`)
  }
  return baseUrl.replace(/\/+$/, '')
}

/**
 * Checks how the client signs in. Returns its API key, or undefined without one.
 *
 * @throws {TypeError} also when `apiKey` is undefined, because a variable of the environment may be missing
 */
export function checkCredentials (options: LandfallClientOptions): string | undefined {
  if (options.cookieSession === true && options.tokens !== undefined) {
    throw new TypeError("tokens can't be used with cookieSession, which keeps them itself")
  }
  if (!('apiKey' in options)) return undefined
  const { apiKey, tokens } = options
  if (typeof apiKey !== 'string' || !/^lf_[0-9A-Za-z]{46}$/.test(apiKey)) {
    throw new TypeError('apiKey must be an API key: lf_ and 46 letters and digits')
  }
  if (tokens !== undefined) throw new TypeError("tokens can't be used with apiKey, which needs no session")
  return apiKey
}
