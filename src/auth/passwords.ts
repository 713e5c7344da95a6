import argon2 from 'argon2'
import { dictionary } from '@zxcvbn-ts/language-common'
import fp from 'fastify-plugin'
import { RetryLaterError } from '../errors.ts'

declare module 'fastify' {
  interface FastifyInstance {
    passwords: Passwords
  }
}

/** OWASP Password Storage Cheat Sheet, argon2id: memory in KiB. */
const PARAMETERS = { type: argon2.argon2id, memoryCost: 19 * 1024, timeCost: 2, parallelism: 1 } as const

/** argon2 runs in libuv's pool of four threads, which files and compression need too. */
const MAX_AT_ONCE = 2
/** About a second of work; whoever comes later is told to come again instead of waiting longer. */
const MAX_WAITING = 64

const COMMONEST = new Set(dictionary['passwords-common'].filter((password) => password.length >= 8))

/** The form in which passwords are measured, hashed and compared. */
export const normalizePassword = (password: string): string => password.normalize('NFC')

/** Whether a password is one of those that everybody tries first, in upper or lower case. */
export const isCommonPassword = (password: string): boolean => COMMONEST.has(password.toLowerCase())

/** Hashes and compares passwords, a few at a time. */
export class Passwords {
  readonly #waiting: (() => void)[] = []
  #running = 0
  #decoy: Promise<string> | undefined

  /** @throws {RetryLaterError} 503 when too many are waiting */
  async hash (password: string): Promise<string> {
    return await this.#inTurn(() => argon2.hash(Buffer.from(normalizePassword(password)), PARAMETERS))
  }

  /**
   * Compares a password with its hash. Without a hash (nobody has that e-mail address) it compares with a decoy, so
   * that the answer takes as long.
   *
   * @throws {RetryLaterError} 503 when too many are waiting
   */
  async verify (hash: string | undefined, password: string): Promise<boolean> {
    this.#decoy ??= argon2.hash(Buffer.from('decoy'), PARAMETERS)
    const compareWith = hash ?? await this.#decoy
    const same = await this.#inTurn(() => argon2.verify(compareWith, Buffer.from(normalizePassword(password))))
    return same && hash !== undefined
  }

  /** Whether a hash was made with other parameters than today's. */
  isOutdated (hash: string): boolean {
    return !hash.startsWith('$argon2id$') || argon2.needsRehash(hash, PARAMETERS)
  }

  /** Makes the decoy before the first sign-in needs it, so that none takes longer. */
  async warmUp (): Promise<void> {
    await this.verify(undefined, '')
  }

  async #inTurn<T> (task: () => Promise<T>): Promise<T> {
    if (this.#running >= MAX_AT_ONCE) {
      if (this.#waiting.length >= MAX_WAITING) throw new RetryLaterError(503, 'Too many people are signing in, try again shortly', 1)
      await new Promise<void>((resolve) => this.#waiting.push(resolve)) // woken with the turn already taken
    } else {
      this.#running++
    }
    try {
      return await task()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#running--
      else next()
    }
  }
}

export default fp(async (app) => {
  const passwords = new Passwords()
  app.decorate('passwords', passwords)
  await passwords.warmUp()
}, { name: 'passwords' })
