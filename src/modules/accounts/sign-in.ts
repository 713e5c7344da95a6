import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Database } from '../../infra/postgres/database.ts'
import { isEmailAddress } from './credentials.ts'
import type { Passwords } from './passwords.ts'
import { SignInThrottle } from './sign-in-throttle.ts'
import { findUser, replacePasswordHash, type User } from './user-repository.ts'

/** Checks credentials within the sign-in limits. Unknown accounts take the same time as wrong passwords. */
export class SignIn {
  readonly #database: Database
  readonly #passwords: Passwords
  readonly #throttle: SignInThrottle
  readonly #counts: { signInFailures: number }

  constructor (app: FastifyInstance) {
    this.#database = app.database
    this.#passwords = app.passwords
    this.#throttle = new SignInThrottle(app)
    this.#counts = app.authCounts
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
    const isRight = await this.#throttle.guard(request, email, async () => {
      user = isEmailAddress(email) ? await findUser(this.#database, email) : undefined
      return user?.passwordHash
    }, async () => await this.#passwords.verify(user?.passwordHash, password))
    if (user === undefined || !isRight) {
      this.#counts.signInFailures++
      return undefined
    }
    return this.#passwords.isOutdated(user.passwordHash) ? await this.#renewHash(user, password) : user
  }

  /** Hashes the password with the current parameters, unless a concurrent sign-in has done so. */
  async #renewHash (user: User, password: string): Promise<User> {
    const passwordHash = await this.#passwords.hash(password)
    if (await replacePasswordHash(this.#database, user, passwordHash)) return { ...user, passwordHash }
    const current = await findUser(this.#database, user.email)
    return current !== undefined && await this.#passwords.verify(current.passwordHash, password) ? current
      : user
  }
}
