import { mkdir, rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { beginDeletion, resumeDeletions } from '../../../src/modules/account-deletion/index.ts'
import { listAccounts, operatorOf } from '../../../src/modules/accounts/index.ts'
import { buildTestApp, createKey, createPage, PASSWORD, sendAs, signUp, testSettings,
  type Account } from '../../helpers/app.ts'
import { pathOf, upload } from '../../helpers/assets.ts'
import { stored } from '../../helpers/stores.ts'
import { openTransaction, untilBlocked } from '../../helpers/transaction.ts'
import { until } from '../../helpers/until.ts'

// Deletions of accounts that are interrupted, and requests of the account at the same time.

const settings: Record<string, string> = { ...await testSettings(t), RATE_LIMIT_PUBLIC: '1000000' }
const logged: { audit?: string, msg: string }[] = []
const logger = pino({ level: 'info' }, { write: (line: string) => logged.push(JSON.parse(line)) })
const app = await buildTestApp(t, settings, logger)
const { database } = app

const deleteAccount = async (account: Account, on = app) =>
  await sendAs(on, account, 'DELETE', '/auth/me', { password: PASSWORD })
const begin = async ({ user }: Account) => await beginDeletion(database, operatorOf(user.email), false)
/** The numbers of pages, assets and keys of an account. */
async function countsOf ({ user }: Account): Promise<number[]> {
  const where = { userId: user.id }
  const { landingPage, asset, apiKey } = database
  return [await landingPage.count({ where }), await asset.count({ where }), await apiKey.count({ where })]
}
const liveSessionsOf = async ({ user }: Account) =>
  await database.session.count({ where: { userId: user.id, revokedAt: null } })
const isGone = async ({ user }: Account) =>
  await database.user.findUnique({ where: { id: user.id } }) === null
/** Waits, because the background task of the process may have the deletion just now. */
const untilGone = async (account: Account) =>
  await until(async () => await isGone(account), 'the deletion', 20_000)
const metrics = async () => await app.metrics.metrics()

const transaction = async (t: Test) => await openTransaction(t, settings.DATABASE_URL as string)
const untilWaiting = async (count: number) => await untilBlocked(settings.DATABASE_URL as string, count)

/** Makes a file of an account impossible to remove. Returns a function that ends this. */
async function blockRemoval (file: { url: string }): Promise<() => Promise<void>> {
  const path = join(settings.UPLOADS_DIR as string, pathOf(file).split('/').at(-1) as string)
  await rm(path)
  await mkdir(path)
  return async () => await rmdir(path)
}

t.test('requests that wait for the deletion to begin leave nothing', async (t) => {
  const owner = await signUp(app)
  await app.inject({ url: '/auth/me', headers: owner.headers }) // notes that the session is used
  // The deletion locks the row of the user before it waits for this table.
  const other = await transaction(t)
  await other.client.query('LOCK TABLE preview_links IN SHARE MODE')
  const beginning = begin(owner)
  await untilWaiting(1)
  const { headers } = owner
  const credentials = { user: { email: owner.user.email, password: PASSWORD } }
  const key = { name: 'late', scopes: ['pages:read'], current_password: PASSWORD }
  const responses = Promise.all([
    app.inject({ method: 'POST', url: '/landing_pages', headers, payload: { current_data: {} } }),
    upload(app, owner, 'late'),
    app.inject({ method: 'POST', url: '/auth/sign_in', payload: credentials }),
    app.inject({ method: 'POST', url: '/api_keys', headers, payload: key })
  ])
  await untilWaiting(5)
  await other.client.query('COMMIT')
  t.equal(await beginning, owner.user.id)
  const [page, asset, session, apiKey] = (await responses).map(({ statusCode }) => statusCode)
  t.same([page, asset, session], [401, 401, 401])
  t.ok(apiKey === 401 || apiKey === 422, `an API key: ${apiKey}`)
  t.same(await countsOf(owner), [0, 0, 0])
  t.equal(await liveSessionsOf(owner), 0)
  t.same((await stored(app)).published, [])
  await resumeDeletions(app)
  await untilGone(owner)
})

t.test('what a statement before the deletion has written is deleted, too', async (t) => {
  const owner = await signUp(app)
  const file = (await upload(app, owner, 'x')).json()
  const unblock = await blockRemoval(file)
  // A sign-in that has locked the user's row, whose session the deletion doesn't see when it begins.
  const signIn = await transaction(t)
  await signIn.client.query('SELECT FROM users WHERE id = $1 FOR SHARE', [owner.user.id])
  await signIn.client.query(
    "INSERT INTO sessions (id, user_id, expires_at) VALUES (gen_random_uuid(), $1, now() + interval '1 day')",
    [owner.user.id]
  )
  await signIn.client.query(
    'INSERT INTO landing_pages (id, public_id, user_id, current_data, content_hash) VALUES ' +
      "(gen_random_uuid(), 'late', $1, '{}', '')",
    [owner.user.id]
  )
  const answer = deleteAccount(owner)
  await untilWaiting(1)
  await signIn.client.query('COMMIT')
  t.equal((await answer).statusCode, 204)
  t.notOk(await isGone(owner), 'its file could not be removed')
  t.same(await countsOf(owner), [0, 1, 0])
  t.equal(await liveSessionsOf(owner), 0)
  await unblock()
  await resumeDeletions(app)
  await untilGone(owner)
})

t.test('a deletion whose files cannot be removed is answered, and finished later', async (t) => {
  const owner = await signUp(app)
  await createKey(app, owner, ['pages:read'])
  const page = await createPage(app, owner)
  const files = [(await upload(app, owner, 'a')).json(), (await upload(app, owner, 'b')).json()]
  const unblock = await blockRemoval(files[0])
  logged.length = 0
  t.equal((await deleteAccount(owner)).statusCode, 204)
  t.match(logged.filter(({ audit }) => audit !== undefined), [
    {
      audit: 'account_deleted',
      user: owner.user.id,
      session: String,
      email_hash: String,
      address: '127.0.0.1'
    }
  ])
  t.ok(logged.some(({ msg }) => msg.startsWith('the deletion of an account is not finished')))
  t.equal((await app.inject({ url: '/auth/me', headers: owner.headers })).statusCode, 401)
  t.equal((await app.inject(`/landing_pages/${page.public_id}`)).statusCode, 404)
  for (const file of files) t.equal((await app.inject(pathOf(file))).statusCode, 404)
  t.same(await countsOf(owner), [0, 1, 0], 'the asset whose file is left')
  t.ok((await signUp(app, owner.user.email)).user.id > owner.user.id, 'the address is free')
  for await (const accounts of listAccounts(database)) {
    t.notOk(accounts.some(({ id }) => id === owner.user.id), 'the account is not listed any more')
  }

  await resumeDeletions(app)
  t.match(await metrics(), /^landfall_unfinished_account_deletions 1$/m)
  t.match(await metrics(), /^landfall_account_deletions_total\{event="failed"\} [1-9]/m)
  t.notOk(await isGone(owner), 'the file still cannot be removed')
  await unblock()
  await resumeDeletions(app)
  await untilGone(owner)
  await resumeDeletions(app)
  t.match(await metrics(), /^landfall_unfinished_account_deletions 0$/m)
})

t.test('a deletion goes on after an error of PostgreSQL', async (t) => {
  const impatient = await buildTestApp(t, { ...settings, DATABASE_TIMEOUT_MS: '500' })
  const owner = await signUp(impatient)
  const { public_id: id } = await createPage(impatient, owner)
  const other = await transaction(t)
  await other.client.query('SELECT FROM landing_pages WHERE public_id = $1 FOR UPDATE', [id])
  t.equal((await deleteAccount(owner, impatient)).statusCode, 204)
  await until(() => impatient.accountDeletions.counts.failed > 0)
  await other.client.query('COMMIT')
  t.equal((await impatient.inject(`/landing_pages/${id}`)).statusCode, 404)
  await resumeDeletions(impatient)
  await untilGone(owner)
})

t.test('a process that starts goes on with a deletion', async (t) => {
  const owner = await signUp(app)
  await createPage(app, owner)
  await begin(owner)
  await buildTestApp(t, settings)
  await untilGone(owner)
})

t.test('readers get a 404 for all pages before any is deleted', async (t) => {
  const owner = await signUp(app)
  const pages = await Promise.all(Array.from({ length: 3 }, async () => await createPage(app, owner)))
  const read = async () =>
    new Set(await Promise.all(pages.map(async ({ public_id: id }) =>
      (await app.inject(`/landing_pages/${id}`)).statusCode
    )))
  t.same(await read(), new Set([200]))
  const other = await transaction(t)
  await other.client.query('SELECT FROM landing_pages WHERE user_id = $1 FOR UPDATE', [owner.user.id])
  const response = await deleteAccount(owner)
  t.equal(response.statusCode, 204)
  t.same(await read(), new Set([404]))
  t.equal(await database.landingPage.count({ where: { userId: owner.user.id } }), 3)
  await other.client.query('COMMIT')
  await untilGone(owner)
})
