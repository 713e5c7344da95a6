import { createUser, listAccounts, setPassword, signOutEverywhere, type AccountSummary, type SignedOut } from '../auth/administration.ts'
import { Passwords } from '../auth/passwords.ts'
import { checkNewPassword, checkSignUp, findUser, normalizeEmail } from '../auth/users.ts'
import type { Input } from './commands.ts'
import { withDatabase } from './database.ts'
import { count, print, table } from './output.ts'
import { readNewPassword } from './password.ts'
import { commandSettings } from './settings.ts'

// The accounts, for those who run the service. The rules are those of sign-up.

const HEADINGS = ['ID', 'EMAIL', 'CREATED', 'PAGES', 'ASSETS', 'SESSIONS']

/** Lists all accounts. */
export async function listCommand ({ json }: Input): Promise<number> {
  return await withDatabase(commandSettings(), async (database) => {
    let printed = 0
    for await (const accounts of listAccounts(database)) {
      if (json) print(accounts.map((account, index) => `${printed + index === 0 ? '[' : ','}\n${JSON.stringify(onTheWire(account))}`).join(''))
      else print(table([...printed === 0 ? [HEADINGS] : [], ...accounts.map(rowOf)]))
      printed += accounts.length
    }
    if (json) print(printed === 0 ? '[]\n' : '\n]\n')
    else if (printed === 0) print('There are no accounts yet\n')
    return 0
  })
}

/** Creates an account. */
export async function createCommand ({ operands, json }: Input): Promise<number> {
  return await withDatabase(commandSettings(), async (database) => {
    const given = await readNewPassword()
    const { email, password } = await checkSignUp(database, { user: { email: operands[0], password: given, password_confirmation: given } })
    const id = await createUser(database, email, await new Passwords().hash(password))
    print(json ? `${JSON.stringify({ id, email })}\n` : `Created account ${id}, ${email}\n`)
    return 0
  })
}

/** Gives an account another password, and signs it out everywhere. */
export async function setPasswordCommand ({ operands, json }: Input): Promise<number> {
  const email = normalizeEmail(operands[0] as string)
  return await withDatabase(commandSettings(), async (database) => {
    if (await findUser(database, email) === undefined) throw unknown(email)
    const password = checkNewPassword(email, await readNewPassword())
    return done(email, await setPassword(database, email, await new Passwords().hash(password)), json, 'Changed the password of')
  })
}

/** Ends all sessions of an account. */
export async function signOutCommand ({ operands, json }: Input): Promise<number> {
  const email = normalizeEmail(operands[0] as string)
  return await withDatabase(commandSettings(), async (database) => done(email, await signOutEverywhere(database, email), json, 'Signed out'))
}

function done (email: string, account: SignedOut | undefined, json: boolean, what: string): number {
  if (account === undefined) throw unknown(email)
  const { id, sessionsEnded } = account
  print(json ? `${JSON.stringify({ id, email, sessions_ended: sessionsEnded })}\n` : `${what} ${email}: ${count(sessionsEnded, 'session')} ended\n`)
  return 0
}

const unknown = (email: string): Error => new Error(`There is no account ${email} (npx landfall users list shows all)`)

const onTheWire = ({ id, email, createdAt, landingPages, assets, sessions }: AccountSummary) =>
  ({ id, email, created_at: createdAt, landing_pages: landingPages, assets, sessions })

const rowOf = ({ id, email, createdAt, landingPages, assets, sessions }: AccountSummary): string[] =>
  [String(id), email, createdAt.replace(/T(..:..).*/, ' $1'), String(landingPages), String(assets), String(sessions)]
