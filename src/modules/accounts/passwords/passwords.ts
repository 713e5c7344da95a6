import { randomBytes } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { dictionary } from '@zxcvbn-ts/language-common'
import argon2 from 'argon2'
import fp from 'fastify-plugin'
import { RetryLaterError } from '../../../errors.ts'
import { Semaphore } from '../../../infra/system/semaphore.ts'
import { addMetrics } from '../../../infra/telemetry/metrics.ts'
import { compose } from '../mail/email-addresses.ts'

declare module 'fastify' {
  interface FastifyInstance {
    passwords: Passwords
  }
}

export const PASSWORD_MIN = 8
export const PASSWORD_MAX = 256

const COMMON_PASSWORDS =
  new Set(dictionary['passwords-common'].filter((password) => password.length >= PASSWORD_MIN))

/** The form in which passwords are measured, hashed and compared. */
export const normalizePassword = compose

/** Returns the problems of a normalised password, except with its length. */
export function checkPassword (password: string): string[] {
  const problems: string[] = []
  // Unpaired surrogates are encoded as U+FFFD, so different passwords would have the same hash.
  if (!password.isWellFormed()) problems.push('contains characters that are not valid')
  if (COMMON_PASSWORDS.has(password.toLowerCase())) problems.push('is too common')
  return problems
}

/** OWASP Password Storage Cheat Sheet, argon2id; memory in KiB. */
const PARAMETERS = { type: argon2.argon2id, memoryCost: 19 * 1024, timeCost: 2, parallelism: 1 } as const

const base64 = (bytes: number): string => randomBytes(bytes).toString('base64').replace(/=+$/, '')
/** A hash of no known password. To compare with it takes as long as with a real one. */
const DECOY =
  `$argon2id$v=19$m=${PARAMETERS.memoryCost},t=${PARAMETERS.timeCost},p=${PARAMETERS.parallelism}` +
  `$${base64(16)}$${base64(32)}`

/**
 * The most hashes that run at once. One core stays free for requests, and two of libuv's four threads for
 * files and compression. On two cores, two hashes at once double the latency of a public read, and one hash
 * adds 20 % (`npm run bench:neighbours`).
 */
export const MAX_HASHES = Math.max(1, Math.min(2, availableParallelism() - 1))
/** The most hashes that may wait. To compute this many takes one to two seconds. */
const MAX_WAITING = 64
/** The most hashes of one client address that may wait. */
export const MAX_WAITING_PER_ADDRESS = 8

/** Hashes and compares passwords, a few at a time. Client addresses, the keys of the queue, take turns. */
export class Passwords {
  /** Hashes that run, and that wait. */
  readonly queue = new Semaphore({
    maxRunning: MAX_HASHES,
    maxWaiting: MAX_WAITING,
    maxWaitingPerKey: MAX_WAITING_PER_ADDRESS,
    createRefusal: () => new RetryLaterError(503, 'Too many people are signing in, try again shortly', 1)
  })

  /**
   * Hashes a password.
   *
   * @param address the counted address of the client, if a request needs the hash
   * @throws {RetryLaterError} 503 when too many are waiting, or too many of this address
   */
  async hash (password: string, address?: string): Promise<string> {
    return await this.queue.run(async () => await argon2.hash(bytesOf(password), PARAMETERS), address)
  }

  /**
   * Compares a password with its hash. Without a hash (there is no account), it compares with a decoy, so
   * that both cases take the same time.
   *
   * @param address the counted address of the client
   * @throws {RetryLaterError} 503 when too many are waiting, or too many of this address
   */
  async verify (hash: string | undefined, password: string, address?: string): Promise<boolean> {
    return await this.queue.run(async () => {
      const isEqual = await argon2.verify(hash ?? DECOY, bytesOf(password))
      return isEqual && hash !== undefined
    }, address)
  }

  /** Whether a hash was made with other parameters than today's. */
  isOutdated (hash: string): boolean {
    return !hash.startsWith('$argon2id$') || argon2.needsRehash(hash, PARAMETERS)
  }
}

const bytesOf = (password: string): Buffer => Buffer.from(normalizePassword(password))

export default fp(async (app) => {
  const passwords = new Passwords()
  app.decorate('passwords', passwords)
  addMetrics(app.metrics, {
    landfall_password_hashes: [
      'Passwords being hashed or compared (running), and waiting for it',
      () => ({ running: passwords.queue.running, waiting: passwords.queue.waiting }),
      { label: 'state' }
    ],
    landfall_password_hashes_refused_total: ['Hashes refused (503)', () => passwords.queue.refused]
  })
}, { name: 'passwords', dependencies: ['metrics'] })
