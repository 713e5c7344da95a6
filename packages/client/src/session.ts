import { isUnauthorized } from './errors.ts'
import { sleep } from './retry.ts'
import type { TokenPair, TokenStorage } from './tokens.ts'
import { Mutex } from './mutex.ts'

/** How often and at what interval a client looks for tokens that another client may be about to store. */
const LOOKS_FOR_NEW_TOKENS = 4
const LOOK_INTERVAL_MS = 250

export interface SessionOptions {
  readonly storage: TokenStorage
  /** Whether other clients may use the same storage. */
  readonly isShared: boolean
  /** The name of the lock, the same for all clients that share a storage. */
  readonly name: string
  /** Exchanges a refresh token. Throws a LandfallError with status 401 when the service refuses it. */
  readonly refresh: (refreshToken: string) => Promise<TokenPair>
  readonly onEnded: () => void
}

/** The result of a renewal. `found` means that another client has stored new tokens. */
export type Renewal = 'refreshed' | 'found' | 'ended'

/** The session of a client, which keeps its tokens in a storage or in a cookie. */
export interface ClientSession {
  /** Returns the access token to send. Waits for a renewal that is under way. */
  getAccessToken(): Promise<string | undefined>
  /** Keeps the tokens of a new session. */
  start(tokens: TokenPair): Promise<void>
  /**
   * Renews the tokens, unless another client has already done so.
   *
   * @param refused the access token that got a 401
   * @throws the error of the refresh, unless it is a 401; the session may still be valid then
   */
  renew(refused: string): Promise<Renewal>
  /**
   * Ends the session and deletes its tokens.
   *
   * @param revoke revokes the tokens, or those of the cookie
   * @throws the error of `revoke` or of the refresh, unless it is a 401; the tokens stay then
   */
  end(revoke: (tokens?: TokenPair) => Promise<void>): Promise<void>
}

/** The tokens of a client. One renewal serves all waiting requests, and all tabs of a browser. */
export class Session implements ClientSession {
  readonly #options: SessionOptions
  readonly #mutex: Mutex
  #renewal: Promise<Renewal> | undefined
  /** Whether there were tokens, so that `onEnded` is called when they are gone. */
  #isLive = false
  /** The access token of the last session that ended. A slow storage may still return it. */
  #endedToken: string | undefined

  constructor (options: SessionOptions) {
    this.#options = options
    this.#mutex = new Mutex(options.isShared ? options.name : undefined)
  }

  async getAccessToken (): Promise<string | undefined> {
    await this.#renewal?.catch(() => {}) // the requests that started the renewal get the error
    const tokens = await this.#options.storage.load()
    if (tokens === undefined) this.#noteEnd()
    else if (tokens.access_token !== this.#endedToken) this.#isLive = true
    return tokens?.access_token
  }

  async start (tokens: TokenPair): Promise<void> {
    await this.#mutex.run(async () => {
      await this.#options.storage.save(tokens)
      this.#isLive = true
    })
  }

  async renew (refused: string): Promise<Renewal> {
    this.#renewal ??= this.#mutex.run(async () => await this.#renew(refused)).finally(() => {
      this.#renewal = undefined
    })
    return await this.#renewal
  }

  /** @param revoke is called again with new tokens when the access token has expired */
  async end (revoke: (tokens: TokenPair) => Promise<void>): Promise<void> {
    const { storage, refresh } = this.#options
    await this.#mutex.run(async () => {
      let tokens = await storage.load()
      if (tokens === undefined) {
        this.#isLive = false // another tab has signed out; onEnded isn't called for a sign-out
        return
      }
      try {
        try {
          await revoke(tokens)
        } catch (error) {
          if (!isUnauthorized(error)) throw error
          tokens = await refresh(tokens.refresh_token)
          await storage.save(tokens)
          await revoke(tokens)
        }
      } catch (error) {
        if (!isUnauthorized(error)) throw error // a 401 means that the session is already over
      }
      this.#isLive = false
      await this.#clear(tokens)
    })
  }

  async #renew (refused: string): Promise<Renewal> {
    const { storage, refresh } = this.#options
    const tokens = await storage.load()
    if (tokens === undefined) return this.#noteEnd()
    if (tokens.access_token !== refused) return 'found'
    try {
      await storage.save(await refresh(tokens.refresh_token))
      return 'refreshed'
    } catch (error) {
      if (!isUnauthorized(error)) throw error
    }
    if (await this.#hasNewTokens(tokens)) return 'found'
    await this.#clear(tokens)
    return this.#noteEnd()
  }

  /** Whether a client that the lock doesn't reach, such as another process of Node, has stored new tokens. */
  async #hasNewTokens (tokens: TokenPair): Promise<boolean> {
    if (!this.#options.isShared) return false
    for (let look = 1;; look++) {
      const now = await this.#options.storage.load()
      if (now !== undefined && now.refresh_token !== tokens.refresh_token) return true
      if (look === LOOKS_FOR_NEW_TOKENS) return false
      await sleep(LOOK_INTERVAL_MS)
    }
  }

  async #clear (tokens: TokenPair): Promise<void> {
    this.#endedToken = tokens.access_token
    await this.#options.storage.clear()
  }

  #noteEnd (): 'ended' {
    if (this.#isLive) {
      this.#isLive = false
      this.#options.onEnded()
    }
    return 'ended'
  }
}
