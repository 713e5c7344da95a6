import type { components } from './api.ts'
import { isUnauthorized } from './errors.ts'
import { sleep } from './retry.ts'
import type { ClientSession, Renewal } from './session.ts'
import type { TokenPair } from './tokens.ts'
import { Mutex } from './mutex.ts'

type BrowserSession = components['schemas']['BrowserSession']

export interface CookieSessionOptions {
  /** The name of the lock, the same for all tabs. */
  readonly name: string
  /**
   * Exchanges a refresh token for a cookie, or the cookie for the next one. Resolves to undefined when there
   * is none. Throws a LandfallError with status 401 when the service refuses it.
   */
  readonly open: (refreshToken?: string) => Promise<BrowserSession | undefined>
  readonly onEnded: () => void
}

/**
 * A session whose refresh token is in a cookie, which all tabs share and no script can read. The access token
 * is in memory only.
 */
export class CookieSession implements ClientSession {
  readonly #options: CookieSessionOptions
  readonly #mutex: Mutex
  #current: BrowserSession | undefined
  #renewal: Promise<Renewal> | undefined

  constructor (options: CookieSessionOptions) {
    this.#options = options
    this.#mutex = new Mutex(options.name)
  }

  async getAccessToken (): Promise<string | undefined> {
    await this.#renewal?.catch(() => {}) // the requests that started the renewal get the error
    return this.#current?.access_token
  }

  async start ({ refresh_token: refreshToken }: TokenPair): Promise<void> {
    await this.#mutex.run(async () => {
      this.#current = await this.#options.open(refreshToken)
    })
  }

  /**
   * Continues the session of the cookie.
   *
   * @returns its user; undefined when there is no session
   */
  async resume (): Promise<BrowserSession['user'] | undefined> {
    return await this.#mutex.run(async () => {
      const opened = await this.#openCookie()
      if (opened === undefined) this.#noteEnd()
      else this.#current = opened
      return opened?.user
    })
  }

  async renew (refused: string): Promise<Renewal> {
    this.#renewal ??= this.#mutex.run(async () => await this.#renew(refused)).finally(() => {
      this.#renewal = undefined
    })
    return await this.#renewal
  }

  /** Ends the session of the cookie, also if this client hasn't resumed it. */
  async end (revoke: () => Promise<void>): Promise<void> {
    await this.#mutex.run(async () => {
      await this.#unlessOver(revoke)
      this.#current = undefined
    })
  }

  async #renew (refused: string): Promise<Renewal> {
    if (this.#current === undefined) return 'ended'
    if (this.#current.access_token !== refused) return 'found'
    const opened = await this.#openCookie()
    // In another tab, somebody may have signed in to another account.
    if (opened?.user.id !== this.#current.user.id) return this.#noteEnd()
    this.#current = opened
    return 'refreshed'
  }

  async #openCookie (): Promise<BrowserSession | undefined> {
    return await this.#unlessOver(async () => await this.#options.open())
  }

  /** Uses the cookie. Resolves to undefined when there is none, or the service refuses it. */
  async #unlessOver<T> (use: () => Promise<T>): Promise<T | undefined> {
    for (let isSecond = false;; isSecond = true) {
      try {
        return await use()
      } catch (error) {
        if (!isUnauthorized(error)) throw error
        // A tab without Web Locks, or this one before a reload, has just renewed the session.
        const { retryAfterSeconds } = error
        if (isSecond || retryAfterSeconds === undefined) return undefined
        await sleep(retryAfterSeconds * 1000)
      }
    }
  }

  #noteEnd (): 'ended' {
    if (this.#current !== undefined) {
      this.#current = undefined
      this.#options.onEnded()
    }
    return 'ended'
  }
}
