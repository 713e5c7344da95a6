import { unlessTaken, type Database, type Transaction } from '../../infra/postgres/database.ts'
import type { User as UserRow } from '../../infra/postgres/generated/prisma/client.ts'
import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import { InvalidError } from '../../errors.ts'

export type User = Readonly<Pick<UserRow, 'id' | 'email' | 'passwordHash' | 'emailConfirmedAt'>>

export interface AccountSummary {
  readonly id: number
  readonly email: string
  /** RFC 3339, UTC. */
  readonly createdAt: string
  readonly landingPages: number
  readonly assets: number
  /** Sessions that have not ended. */
  readonly sessions: number
}

/** What a signed-in user has proved with the password. Changes check that it still holds. */
export interface PasswordProof {
  readonly userId: number
  readonly email: string
  /** The hash that the password was compared with. */
  readonly passwordHash: string
  readonly sessionId: string
}

/** Who changes an account: its user, or the operator with the command line, who needs no password. */
export type Authority = PasswordProof | {
  readonly email: string
  readonly passwordHash: null
  readonly sessionId: null
}

/** The authority of the operator over the account of a normalised address. */
export const operatorOf = (email: string): Authority => ({ email, passwordHash: null, sessionId: null })

/** A condition of Prisma: a session that has not ended, as far as the clock of this process tells. */
export const isAlive = () => ({ revokedAt: null, expiresAt: { gt: new Date() } })

/** The address of a user whose deletion has begun. It isn't valid, so nobody can sign up or in with it. */
export const deletedEmail = (userId: number): string => `deleted account ${userId}`

/** A condition on a row of `users`: the deletion of the account has begun. */
export const IS_BEING_DELETED = "users.email = 'deleted account ' || users.id"

/**
 * Returns a SELECT of a user whose account is not being deleted. Statements that insert pages or assets must
 * read from it: either its lock makes the deletion wait, or it finds no row because the deletion has begun.
 *
 * @param userId a placeholder
 */
export const ownerSql = (userId: string): string =>
  `SELECT id FROM users WHERE id = ${userId} AND NOT ${IS_BEING_DELETED} FOR KEY SHARE`

export const EMAIL_TAKEN = 'Email has already been taken'
const ACCOUNTS_PER_STATEMENT = 500

// Hot: each sign-in of a flood looks for its account before it is refused.
const FIND = statement<User>(`
  SELECT id, email, password_hash AS "passwordHash", email_confirmed_at AS "emailConfirmedAt"
  FROM users WHERE email = :email`)

/** Finds an account by its normalised e-mail address. */
export async function findUser (database: StatementRunner, email: string): Promise<User | undefined> {
  return (await database.run(FIND, { email }))[0]
}

/**
 * Finds an account, and locks it until the end of the transaction. Sign-ins, new keys and other changes of it
 * wait.
 *
 * @returns undefined when the proof of the authority doesn't hold any more, or there is no such account
 */
export async function lockAccount (
  transaction: Transaction,
  { email, passwordHash, sessionId }: Authority
): Promise<User | undefined> {
  // Prisma has no locks.
  const [user] = await transaction.$queryRaw<User[]>`
    SELECT id, email, password_hash AS "passwordHash", email_confirmed_at AS "emailConfirmedAt"
    FROM users WHERE email = ${email} FOR NO KEY UPDATE`
  if (user === undefined || user.email === deletedEmail(user.id)) return undefined
  if (sessionId === null) return user
  const session = { id: sessionId, userId: user.id, ...isAlive() }
  const holds = user.passwordHash === passwordHash && await transaction.session.count({ where: session }) > 0
  return holds ? user : undefined
}

/** Yields all accounts in the order of their ids, in batches, without those that are being deleted. */
export async function* listAccounts (
  { user, landingPage, asset, session }: Database
): AsyncGenerator<AccountSummary[]> {
  for (let after = 0;;) {
    const accounts = await user.findMany({
      where: { id: { gt: after }, deletion: null },
      orderBy: { id: 'asc' },
      take: ACCOUNTS_PER_STATEMENT,
      select: { id: true, email: true, createdAt: true }
    })
    // Prisma's counts of relations would read the whole tables.
    const where = { userId: { in: accounts.map(({ id }) => id) } }
    const grouping = { by: 'userId', _count: true } as const
    const [landingPages, assets, sessions] = (await Promise.all([
      landingPage.groupBy({ ...grouping, where: { ...where, deletedAt: null } }),
      asset.groupBy({ ...grouping, where }),
      session.groupBy({ ...grouping, where: { ...where, ...isAlive() } })
    ])).map((counts) => new Map(counts.map(({ userId, _count: count }) => [userId, count])))
    if (accounts.length > 0) {
      yield accounts.map(({ id, email, createdAt }) => ({
        id,
        email,
        createdAt: createdAt.toISOString(),
        landingPages: landingPages?.get(id) ?? 0,
        assets: assets?.get(id) ?? 0,
        sessions: sessions?.get(id) ?? 0
      }))
    }
    if (accounts.length < ACCOUNTS_PER_STATEMENT) return
    after = accounts.at(-1)?.id as number
  }
}

/**
 * Creates an account without a session. Its address counts as confirmed.
 *
 * @returns its id
 * @throws {InvalidError} when the e-mail address is taken
 */
export async function createUser (
  { user }: Database,
  email: string,
  passwordHash: string
): Promise<number> {
  const created = await unlessTaken(user.create({ data: { email, passwordHash }, select: { id: true } }))
  if (created === undefined) throw new InvalidError([EMAIL_TAKEN])
  return created.id
}

/** Replaces a password hash. @returns false when the password has been changed since `user` was read */
export async function replacePasswordHash (
  database: Database,
  user: User,
  passwordHash: string
): Promise<boolean> {
  const { count } = await database.user.updateMany({
    where: { id: user.id, passwordHash: user.passwordHash },
    data: { passwordHash }
  })
  return count === 1
}
