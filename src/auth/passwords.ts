import { availableParallelism } from 'node:os'
import argon2 from 'argon2'
import { dictionary } from '@zxcvbn-ts/language-common'
import fp from 'fastify-plugin'
import { clock } from '../clock.ts'
import { isDatabaseUnavailable } from '../database/unavailable.ts'
import { RetryLaterError } from '../errors.ts'
import { counterOf, gaugeOf } from '../plugins/metrics.ts'

declare module 'fastify' {
  interface FastifyInstance {
    passwords: Passwords
  }
}

/** OWASP Password Storage Cheat Sheet, argon2id: memory in KiB. */
const PARAMETERS = { type: argon2.argon2id, memoryCost: 19 * 1024, timeCost: 2, parallelism: 1 } as const

/**
 * argon2 runs in libuv's pool of four threads, which files and compression need too; and one core stays free for what
 * everybody else waits for: on two cores two hashes at once doubled the time of a public read (`npm run bench:sign-ins`),
 * one adds a fifth.
 */
export const HASHES_AT_ONCE = Math.max(1, Math.min(2, availableParallelism() - 1))
/** One to two seconds of work; whoever comes later is told to come again instead of waiting longer. */
const MAX_WAITING = 64
/** A PostgreSQL that has failed after so long is silent, in milliseconds: not one connection of many that broke. */
const SILENT_MS = 1000

const COMMONEST = new Set(dictionary['passwords-common'].filter((password) => password.length >= 8))

/**
 * Longer than all that is valid, in UTF-16 units: 256 characters of at most four that become one. Bringing thousands of
 * combining marks into order takes time that grows with their square, 0.2 s for those that fit into a request.
 */
const MAX_NORMALIZED = 2048

/** Composed form (NFC) of what isn't too long to be valid in any form; anything else as it is. */
export const compose = (text: string): string => text.length > MAX_NORMALIZED ? text : text.normalize('NFC')

/** The form in which passwords are measured, hashed and compared. */
export const normalizePassword = (password: string): string => compose(password)

/** Whether a password is one of those that everybody tries first, in upper or lower case. */
export const isCommonPassword = (password: string): boolean => COMMONEST.has(password.toLowerCase())

/** Hashes and compares passwords, a few at a time. */
export class Passwords {
  readonly #waiting: { readonly pass: () => void, readonly refuse: (reason: unknown) => void }[] = []
  #running = 0
  #refused = 0
  #decoy: Promise<string> | undefined

  /** @throws {RetryLaterError} 503 when too many are waiting */
  async hash (password: string): Promise<string> {
    return await this.#inTurn(() => argon2.hash(Buffer.from(normalizePassword(password)), PARAMETERS))
  }

  /**
   * Compares a password with its hash. Without a hash (nobody has that e-mail address) it compares with a decoy, so
   * that the answer takes as long.
   *
   * @param find looks the hash up, when it is this password's turn: whoever is turned away costs no statement
   * @throws {RetryLaterError} 503 when too many are waiting
   */
  async verify (find: () => Promise<string | undefined>, password: string): Promise<boolean> {
    this.#decoy ??= argon2.hash(Buffer.from('decoy'), PARAMETERS)
    return await this.#inTurn(async () => {
      const hash = await this.#found(find)
      const same = await argon2.verify(hash ?? await this.#decoy as string, Buffer.from(normalizePassword(password)))
      return same && hash !== undefined
    })
  }

  /** Whether a hash was made with other parameters than today's. */
  isOutdated (hash: string): boolean {
    return !hash.startsWith('$argon2id$') || argon2.needsRehash(hash, PARAMETERS)
  }

  /** Makes the decoy before the first sign-in needs it, so that none takes longer. */
  async warmUp (): Promise<void> {
    await this.verify(async () => undefined, '')
  }

  /** Hashes under way, those that wait, and how many found too many waiting. */
  get queue (): { running: number, waiting: number, refused: number } {
    return { running: this.#running, waiting: this.#waiting.length, refused: this.#refused }
  }

  /** Looks a hash up. When PostgreSQL doesn't answer, nobody who waits meanwhile waits for that a second time. */
  async #found (find: () => Promise<string | undefined>): Promise<string | undefined> {
    const askedAt = clock.now()
    try {
      return await find()
    } catch (error) {
      if (isDatabaseUnavailable(error) && clock.now() - askedAt >= SILENT_MS) {
        for (const { refuse } of this.#waiting.splice(0)) refuse(error)
      }
      throw error
    }
  }

  async #inTurn<T> (task: () => Promise<T>): Promise<T> {
    if (this.#running >= HASHES_AT_ONCE) {
      if (this.#waiting.length >= MAX_WAITING) {
        this.#refused++
        throw new RetryLaterError(503, 'Too many people are signing in, try again shortly', 1)
      }
      await new Promise<void>((resolve, reject) => this.#waiting.push({ pass: resolve, refuse: reject })) // woken with the turn already taken
    } else {
      this.#running++
    }
    try {
      return await task()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#running--
      else next.pass()
    }
  }
}

export default fp(async (app) => {
  const passwords = new Passwords()
  app.decorate('passwords', passwords)
  await passwords.warmUp()
  gaugeOf(app.metrics, { name: 'landfall_password_hashes', help: 'Passwords being hashed or compared, and waiting for that' }, () => {
    const { running, waiting } = passwords.queue
    return { running, waiting }
  }, 'state')
  counterOf(app.metrics, { name: 'landfall_password_hashes_refused_total', help: 'Passwords that were not looked at because too many were waiting (503)' }, () => passwords.queue.refused)
}, { name: 'passwords', dependencies: ['metrics'] })
