import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { createTooManyRequestsError, InvalidError, RetryLaterError,
  UnauthorizedError } from '../../../errors.ts'
import { auditRequest } from '../../../http/access-log.ts'
import { clock } from '../../../infra/system/clock.ts'
import { KeyedSemaphore } from '../../../infra/system/semaphore.ts'
import { secondsLeft } from '../../rate-limit/index.ts'
import { isEmailAddress } from '../mail/email-addresses.ts'
import { addressKey } from '../request-limits.ts'
import { findUser, replacePasswordHash, type PasswordProof, type User } from '../user-repository.ts'

declare module 'fastify' {
  interface FastifyInstance {
    credentialCheck: CredentialCheck
  }
}

/** The field of a request, for messages. */
type PasswordLabel = 'Password' | 'Current password'

const ADDRESS_WINDOW_MS = 60_000
const ACCOUNT_WINDOW_MS = 15 * 60_000
/** The most attempts that may wait for one account. */
const MAX_WAITING = 64

/**
 * The password hash is part of the key, so that failures don't count any more once the password is changed.
 *
 * @param email normalised
 */
const accountKey = (email: string, passwordHash = ''): string =>
  `sign-in:account:${createHash('sha256').update(email).update(passwordHash).digest('base64url')}`

/**
 * Checks credentials within the limits of failed sign-ins per account and per client address. Unknown
 * accounts take the same time as wrong passwords.
 */
export class CredentialCheck {
  readonly #app: FastifyInstance
  /**
   * Attempts for one account are made one after the other. So right passwords at the same moment don't count
   * as failures, and when one attempt finds no budget left, those that wait are refused with it.
   */
  readonly #attempts = new KeyedSemaphore<string>({
    maxRunning: 1,
    maxWaiting: MAX_WAITING,
    createRefusal: () => createTooManyRequestsError(1, 'failed sign-ins')
  })

  constructor (app: FastifyInstance) {
    this.#app = app
  }

  /**
   * Checks credentials, and renews a hash with outdated parameters.
   *
   * @param email normalised; empty for malformed credentials
   * @returns undefined when there is no such account or the password is wrong
   * @throws {RetryLaterError} 429 after too many failures
   */
  async attempt (request: FastifyRequest, email: string, password: string): Promise<User | undefined> {
    const { authCounts, config, database, hashEmail, passwords } = this.#app
    const address = request.server.addressOf(request).counted
    const verify = async (user?: User): Promise<User | undefined> =>
      await passwords.verify(user?.passwordHash, password, address) ? user : undefined
    const attemptForAccount = async (): Promise<User | undefined> => {
      const user = isEmailAddress(email) ? await findUser(database, email) : undefined
      const key = accountKey(email, user?.passwordHash)
      const max = config.SIGN_IN_FAILURES_PER_ACCOUNT
      return await this.#within({ key, max, windowMs: ACCOUNT_WINDOW_MS }, async () => await verify(user))
    }

    let limit = 'sign_in:address'
    const key = addressKey('sign-in:address', address)
    const max = config.SIGN_IN_FAILURES_PER_ADDRESS
    const user = await this.#within({ key, max, windowMs: ADDRESS_WINDOW_MS }, async () => {
      if (email === '') return await verify()
      limit = 'sign_in:account'
      // The hashes of one client may be too many. The attempts of others for the account go on.
      const result = await this.#attempts.run(
        email,
        async () =>
          await attemptForAccount().catch((error: unknown) => {
            if (error instanceof RetryLaterError && error.statusCode === 503) return error
            throw error
          })
      )
      if (result instanceof RetryLaterError) throw result
      return result
    }).catch((error: unknown) => {
      if (error instanceof RetryLaterError && error.statusCode === 429) {
        authCounts.throttled.sign_in++
        auditRequest(request, 'limit_met', { limit, email_hash: hashEmail(email) })
      }
      throw error
    })
    if (user === undefined) authCounts.signInFailures++
    return user !== undefined && passwords.isOutdated(user.passwordHash)
      ? await this.#renewHash(user, password, address) : user
  }

  /**
   * Runs an attempt within a budget of failures. The attempt takes one unit, and returns it unless it fails.
   * So a thousand guesses at once get no further than as many in a row.
   *
   * @param attempt resolves to the user if the credentials are right; an error isn't a failure
   * @throws {RetryLaterError} 429 when no budget is left
   */
  async #within (
    { key, max, windowMs }: { readonly key: string, readonly max: number, readonly windowMs: number },
    attempt: () => Promise<User | undefined>
  ): Promise<User | undefined> {
    const { counters } = this.#app
    const now = clock.now()
    const { allowed, resetAt } = await counters.takeReturnable(key, max, windowMs, now)
    if (!allowed) throw createTooManyRequestsError(secondsLeft({ resetAt }, now), 'failed sign-ins')
    let hasFailed = false
    try {
      const user = await attempt()
      hasFailed = user === undefined
      return user
    } finally {
      if (!hasFailed) await counters.giveBack(key, windowMs, resetAt)
    }
  }

  /**
   * Checks the password of a signed-in user, who confirms an important change with it. The request is refused
   * with all its broken rules at once.
   *
   * @param password what the client sent; if it isn't a string or is empty, `problems` must say so
   * @param problems a sentence for each other broken rule
   * @throws {InvalidError} 422 when the password is wrong, or there are problems
   * @throws {RetryLaterError} 429 after too many failures
   */
  async confirm (
    request: FastifyRequest,
    password: unknown,
    label: PasswordLabel,
    problems: readonly string[] = []
  ): Promise<PasswordProof> {
    const { id: session, email, userId } = request.session
    if (typeof password !== 'string' || password === '') throw new InvalidError(problems)
    const user = await this.attempt(request, email, password)
    if (user === undefined) {
      auditRequest(request, 'password_refused', { user: userId, session })
      throw new InvalidError([`${label} is wrong`, ...problems])
    }
    if (problems.length > 0) throw new InvalidError(problems)
    return { userId, email, passwordHash: user.passwordHash, sessionId: session }
  }

  /** Returns the error for a change that another request has forestalled since confirm(). */
  async createRefusal ({ caller }: FastifyRequest, label: PasswordLabel): Promise<Error> {
    return await caller.isValid() ? new InvalidError([`${label} is wrong`]) : new UnauthorizedError()
  }

  /** Hashes the password with the current parameters, unless a concurrent sign-in has done so. */
  async #renewHash (user: User, password: string, address: string): Promise<User> {
    const passwordHash = await this.#app.passwords.hash(password, address)
    if (await replacePasswordHash(this.#app.database, user, passwordHash)) return { ...user, passwordHash }
    const current = await findUser(this.#app.database, user.email)
    return current !== undefined && await this.#app.passwords.verify(current.passwordHash, password, address)
      ? current : user
  }
}

export default fp(async (app) => {
  app.decorate('credentialCheck', new CredentialCheck(app))
}, { name: 'credential-check', dependencies: ['database', 'passwords', 'counters', 'auth-counts'] })
