import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { formatTooManyRequests, InvalidError, RetryLaterError, UnauthorizedError } from '../../../errors.ts'
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

/** The most sign-ins of one account, and of one client address, that may wait. */
const MAX_WAITING = 64

interface FailureLimit {
  readonly name: 'sign_in:account' | 'sign_in:address'
  /** Failures in a window. */
  readonly max: number
  readonly windowMs: number
}

/** A limit of failed sign-ins is met. */
class FailureLimitError extends RetryLaterError {
  readonly limit: FailureLimit['name']

  constructor (limit: FailureLimit['name'], retryAfterSeconds: number) {
    super(429, formatTooManyRequests(retryAfterSeconds, 'failed sign-ins'), retryAfterSeconds)
    this.limit = limit
  }
}

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
  readonly #perAddress: FailureLimit
  readonly #perAccount: FailureLimit
  readonly #addresses = createQueue('sign_in:address')
  readonly #accounts = createQueue('sign_in:account')

  constructor (app: FastifyInstance) {
    this.#app = app
    const { SIGN_IN_FAILURES_PER_ADDRESS, SIGN_IN_FAILURES_PER_ACCOUNT } = app.config
    this.#perAddress = { name: 'sign_in:address', max: SIGN_IN_FAILURES_PER_ADDRESS, windowMs: 60_000 }
    this.#perAccount = { name: 'sign_in:account', max: SIGN_IN_FAILURES_PER_ACCOUNT, windowMs: 15 * 60_000 }
  }

  /**
   * Checks credentials, and renews a hash with outdated parameters.
   *
   * @param email normalised; empty for malformed credentials
   * @returns undefined when there is no such account or the password is wrong
   * @throws {RetryLaterError} 429 after too many failures, or if too many wait
   */
  async attempt (request: FastifyRequest, email: string, password: string): Promise<User | undefined> {
    const { authCounts, hashEmail, passwords } = this.#app
    const address = request.server.addressOf(request).counted
    const attempt = async (): Promise<User | undefined> =>
      email === '' ? await this.#verify(undefined, password, address)
        : await this.#accounts.run(email, async () => await this.#attemptForAccount(email, password, address))
    try {
      const user = await this.#addresses.run(
        address,
        async () => await this.#within(this.#perAddress, addressKey('sign-in:address', address), attempt)
      )
      if (user === undefined) authCounts.signInFailures++
      return user !== undefined && passwords.isOutdated(user.passwordHash)
        ? await this.#renewHash(user, password, address) : user
    } catch (error) {
      if (error instanceof FailureLimitError) {
        authCounts.throttled.sign_in++
        auditRequest(request, 'limit_met', { limit: error.limit, email_hash: hashEmail(email) })
      }
      throw error
    }
  }

  async #attemptForAccount (email: string, password: string, address: string): Promise<User | undefined> {
    const user = isEmailAddress(email) ? await findUser(this.#app.database, email) : undefined
    const key = accountKey(email, user?.passwordHash)
    return await this.#within(this.#perAccount, key, async () => await this.#verify(user, password, address))
  }

  async #verify (user: User | undefined, password: string, address: string): Promise<User | undefined> {
    return await this.#app.passwords.verify(user?.passwordHash, password, address) ? user : undefined
  }

  /**
   * Runs an attempt within a limit. The attempt takes one unit, and returns it unless it fails. So a thousand
   * guesses at once, on any number of processes, get no further than as many in a row.
   *
   * @param attempt resolves to the user if the credentials are right; an error isn't a failure
   * @throws {FailureLimitError} 429 when no unit is left
   */
  async #within (
    { name, max, windowMs }: FailureLimit,
    key: string,
    attempt: () => Promise<User | undefined>
  ): Promise<User | undefined> {
    const { counters } = this.#app
    const now = clock.now()
    const { allowed, resetAt } = await counters.takeReturnable(key, max, windowMs, now)
    if (!allowed) throw new FailureLimitError(name, secondsLeft({ resetAt }, now))
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
      auditRequest(request, 'password_refused')
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

/**
 * Sign-ins of one address, or to one account, are made one after the other. So those with right passwords at
 * the same moment don't take units from each other. Where none is left, those that wait are refused at once.
 */
const createQueue = (limit: FailureLimit['name']): KeyedSemaphore<string> =>
  new KeyedSemaphore({
    maxRunning: 1,
    maxWaiting: MAX_WAITING,
    createRefusal: () => new FailureLimitError(limit, 1),
    // Not the limit of another queue, nor a lack of free places for the hashes of one address.
    concernsWaiting: (error) =>
      error instanceof FailureLimitError ? error.limit === limit : !(error instanceof RetryLaterError)
  })

export default fp(async (app) => {
  app.decorate('credentialCheck', new CredentialCheck(app))
}, { name: 'credential-check', dependencies: ['database', 'passwords', 'counters', 'auth-counts'] })
