import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { InvalidError, UnauthorizedError } from '../../../errors.ts'
import { auditRequest } from '../../../http/access-log.ts'
import { isEmailAddress } from '../mail/email-addresses.ts'
import { SignInThrottle } from './sign-in-throttle.ts'
import { findUser, replacePasswordHash, type PasswordProof, type User } from '../user-repository.ts'

declare module 'fastify' {
  interface FastifyInstance {
    credentialCheck: CredentialCheck
  }
}

/** The field of a request, for messages. */
type PasswordLabel = 'Password' | 'Current password'

/**
 * Checks credentials within the limits of failed sign-ins. Unknown accounts take the same time as wrong
 * passwords.
 */
export class CredentialCheck {
  readonly #app: FastifyInstance
  readonly #throttle: SignInThrottle

  constructor (app: FastifyInstance) {
    this.#app = app
    this.#throttle = new SignInThrottle(app)
  }

  /**
   * Checks credentials, and renews a hash with outdated parameters.
   *
   * @param email normalised
   * @returns undefined when there is no such account or the password is wrong
   * @throws {RetryLaterError} 429 after too many failures
   */
  async attempt (request: FastifyRequest, email: string, password: string): Promise<User | undefined> {
    let user: User | undefined
    const address = request.server.addressOf(request).counted
    const isRight = await this.#throttle.guard(request, email, async () => {
      user = isEmailAddress(email) ? await findUser(this.#app.database, email) : undefined
      return user?.passwordHash
    }, async () => await this.#app.passwords.verify(user?.passwordHash, password, address))
    if (user === undefined || !isRight) {
      this.#app.authCounts.signInFailures++
      return undefined
    }
    return this.#app.passwords.isOutdated(user.passwordHash) ? await this.#renewHash(user, password, address)
      : user
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
