import { sendsMail, type Config } from '../../config.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { beginDeletion, finishDeletion, hidePages,
  type RemovedContent } from '../../modules/account-deletion/index.ts'
import { checkNewAccount, checkNewPassword, createUser, findUser, listAccounts, normalizeEmail, operatorOf,
  Passwords, setPassword, signOutEverywhere, type AccountSummary,
  type EndedSessions } from '../../modules/accounts/index.ts'
import { auditCommand, loadCommandConfig, withDatabase } from '../operator.ts'
import { withUploads, type Uploads } from '../backup/uploads.ts'
import { createDeletionPublisher, reportRemovedFiles } from './take-down.ts'
import { formatCount, formatTime, print, printList } from '../output.ts'
import { readNewPassword } from '../input.ts'

// The commands for accounts. The rules of sign-up apply.

interface Options {
  readonly json?: boolean
}

const HEADINGS = ['ID', 'EMAIL', 'CREATED', 'PAGES', 'ASSETS', 'SESSIONS']

export async function list ({ json = false }: Options): Promise<void> {
  await withDatabase(loadCommandConfig(), async (database) => {
    const empty = 'There are no accounts yet'
    await printList(listAccounts(database), { json, empty, headings: HEADINGS, toRow, toJson })
  })
}

export async function create (givenEmail: string, { json = false }: Options): Promise<void> {
  await withDatabase(loadCommandConfig(), async (database) => {
    const { email, password } = await checkNewAccount(database, {
      email: givenEmail,
      password: await readNewPassword()
    })
    const id = await createUser(database, email, await new Passwords().hash(password))
    auditCommand('users create', { user: id })
    print(json ? `${JSON.stringify({ id, email })}\n` : `Created account ${id}, ${email}\n`)
  })
}

export async function changePassword (givenEmail: string, options: Options): Promise<void> {
  const email = normalizeEmail(givenEmail)
  const config = loadCommandConfig()
  await withDatabase(config, async (database) => {
    if (await findUser(database, email) === undefined) throw createUnknownAccountError(email)
    const password = checkNewPassword(email, await readNewPassword())
    const newPasswordHash = await new Passwords().hash(password)
    const changed = await setPassword(database, operatorOf(email), {
      newPasswordHash,
      hasMail: sendsMail(config)
    })
    reportEndedSessions('set-password', email, changed, options)
  })
}

/**
 * Deletes an account with everything that belongs to it. Readers of its pages get a 404 at once.
 *
 * @returns the exit code
 */
export async function remove (givenEmail: string, { json = false }: Options): Promise<number> {
  const email = normalizeEmail(givenEmail)
  const config = loadCommandConfig()
  return await withUploads(config, async (uploads) => {
    await uploads.store.assertWritable()
    return await withDatabase(config, async (database) => {
      const id = await beginDeletion(database, operatorOf(email), sendsMail(config))
      if (id === undefined) throw createUnknownAccountError(email)
      const { pages, ...removed } = await deleteContent(config, database, uploads, id)
      auditCommand('users delete', { user: id, pages, assets: removed.assets })
      print(json
        ? `${JSON.stringify({ id, email, landing_pages: pages, assets: removed.assets })}\n`
        : `Deleted account ${id}, ${email}: ${formatCount(pages, 'page')}, ` +
          `${formatCount(removed.assets, 'asset')}\n`)
      return reportRemovedFiles(uploads, removed, 'every ten seconds')
    })
  })
}

/** Finishes a deletion that has begun. If that fails, the error says that the service will finish it. */
async function deleteContent (
  config: Config,
  database: Database,
  { store: files }: Uploads,
  userId: number
): Promise<RemovedContent> {
  try {
    const publish = createDeletionPublisher(config.REDIS_URL)
    await hidePages(database, userId, publish)
    return await finishDeletion({ database, files }, userId)
  } catch (error) {
    auditCommand('users delete', { user: userId })
    throw new Error(
      `Account ${userId} can no longer be used, but its deletion was interrupted: ` +
        `${(error as Error).message}. The service finishes it within a minute.`,
      { cause: error }
    )
  }
}

export async function signOut (givenEmail: string, options: Options): Promise<void> {
  const email = normalizeEmail(givenEmail)
  await withDatabase(
    loadCommandConfig(),
    async (database) =>
      reportEndedSessions('sign-out', email, await signOutEverywhere(database, email), options)
  )
}

function reportEndedSessions (
  command: 'set-password' | 'sign-out',
  email: string,
  account: EndedSessions | undefined,
  { json = false }: Options
): void {
  if (account === undefined) throw createUnknownAccountError(email)
  const { id, sessionsEnded } = account
  auditCommand(`users ${command}`, { user: id, sessions_ended: sessionsEnded })
  const action = command === 'sign-out' ? 'Signed out' : 'Changed the password of'
  print(json ? `${JSON.stringify({ id, email, sessions_ended: sessionsEnded })}\n`
    : `${action} ${email}: ${formatCount(sessionsEnded, 'session')} ended\n`)
}

const createUnknownAccountError = (email: string): Error =>
  new Error(`There is no account ${email} (npm run landfall -- users list shows all accounts)`)

const toJson = ({ id, email, createdAt, landingPages, assets, sessions }: AccountSummary) => ({
  id,
  email,
  created_at: createdAt,
  landing_pages: landingPages,
  assets,
  sessions
})

const toRow = ({ id, email, createdAt, landingPages, assets, sessions }: AccountSummary): string[] => [
  String(id),
  email,
  formatTime(createdAt),
  String(landingPages),
  String(assets),
  String(sessions)
]
