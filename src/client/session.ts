import { LandfallError } from './errors.ts'
import { abortableSleep } from './retry.ts'
import type { TokenPair, TokenStorage } from './tokens.ts'

/** Where no lock reaches, somebody else may have spent the refresh token just now, and the answer may still be under way. */
const LOOKS_FOR_ANOTHER = 4
const BETWEEN_LOOKS_MS = 250

export interface SessionOptions {
  readonly storage: TokenStorage
  /** Others may use the storage at the same time. */
  readonly isShared: boolean
  /** Of the lock, one for all that share a storage. */
  readonly name: string
  /** Exchanges a refresh token; throws a LandfallError of status 401 when it is no good. */
  readonly refresh: (refreshToken: string) => Promise<TokenPair>
  readonly onEnded: () => void
}

/** What became of a session whose access token was refused. */
export type Renewal = 'refreshed' | 'found' | 'ended'

/** The tokens of a client, and their renewal: one at a time for any number of requests, and for all tabs of a browser. */
export class Session {
  readonly #options: SessionOptions
  #queue: Promise<unknown> = Promise.resolve()
  #renewal: Promise<Renewal> | undefined
  /** There were tokens when last looked, so their end is worth telling, once. */
  #isLive = false
  /** Whose end is known. A storage that is slow may still give it to those who asked before. */
  #endedToken: string | undefined

  constructor (options: SessionOptions) {
    this.#options = options
  }

  /** The token to send, once a renewal under way has brought it. */
  async accessToken (): Promise<string | undefined> {
    await this.#renewal?.catch(() => {}) // those who asked for it are told
    const tokens = await this.#options.storage.load()
    if (tokens === undefined) this.#noteEnd()
    else if (tokens.access_token !== this.#endedToken) this.#isLive = true
    return tokens?.access_token
  }

  async start (tokens: TokenPair): Promise<void> {
    await this.#exclusively(async () => {
      await this.#options.storage.save(tokens)
      this.#isLive = true
    })
  }

  /**
   * Renews the tokens, unless somebody else has done so since `refused` was read.
   *
   * @param refused the access token that got a 401
   * @throws what the refresh throws unless that is a 401: the session may well live on
   */
  async renew (refused: string): Promise<Renewal> {
    this.#renewal ??= this.#exclusively(async () => await this.#renew(refused)).finally(() => { this.#renewal = undefined })
    return await this.#renewal
  }

  /** Ends the session with `revoke`, which gets tokens that were not refused yet, and whatever that leaves them. */
  async end (revoke: (tokens: TokenPair) => Promise<void>): Promise<void> {
    const { storage, refresh } = this.#options
    await this.#exclusively(async () => {
      let tokens = await storage.load()
      if (tokens === undefined) {
        this.#isLive = false // who signs out needn't be told that another tab was first
        return
      }
      try {
        try {
          await revoke(tokens)
        } catch (error) {
          if (!isRefusal(error)) throw error
          // The access token has expired; without a good one nothing can be revoked.
          tokens = await refresh(tokens.refresh_token)
          await storage.save(tokens)
          await revoke(tokens)
        }
      } catch (error) {
        if (!isRefusal(error)) throw error // over already
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
      if (!isRefusal(error)) throw error
    }
    if (await this.#anotherHasRenewed(tokens)) return 'found'
    await this.#clear(tokens)
    return this.#noteEnd()
  }

  async #anotherHasRenewed (tokens: TokenPair): Promise<boolean> {
    // Whether a lock was held says nothing: Node has Web Locks too, but each process has its own.
    if (!this.#options.isShared) return false
    for (let look = 1; ; look++) {
      const now = await this.#options.storage.load()
      if (now !== undefined && now.refresh_token !== tokens.refresh_token) return true
      if (look === LOOKS_FOR_ANOTHER) return false
      await abortableSleep(BETWEEN_LOOKS_MS)
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

  async #exclusively<T> (work: () => Promise<T>): Promise<T> {
    // Tokens that nobody shares need none, and a sandboxed frame, which can't share any, is refused them.
    const locks = this.#options.isShared ? webLocks() : undefined
    if (locks !== undefined) return await locks.request(this.#options.name, work)
    const result = this.#queue.then(work)
    this.#queue = result.catch(() => {})
    return await result
  }
}

const isRefusal = (error: unknown): boolean => error instanceof LandfallError && error.status === 401

interface Locks {
  request<T> (name: string, work: () => Promise<T>): Promise<T>
}

/** All tabs of an origin share them, but only the threads of one process of Node; there are none on pages without TLS. */
const webLocks = (): Locks | undefined => (globalThis as { navigator?: { locks?: Locks } }).navigator?.locks
