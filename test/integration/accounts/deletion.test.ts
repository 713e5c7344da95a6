import { rename } from 'node:fs/promises'
import t from 'tap'
import { buildTestApp, createKey, createPage, NOBODY, PASSWORD, sendAs, signIn, signInStatus, signUp,
  testSettings, type Account } from '../../helpers/app.ts'
import { pathOf, upload } from '../../helpers/assets.ts'
import { claimRedis, query } from '../../helpers/servers.ts'
import { stored } from '../../helpers/stores.ts'
import { until } from '../../helpers/until.ts'

// Deleting the own account, on two replicas.

const settings: Record<string, string> = {
  ...await testSettings(t),
  REDIS_URL: await claimRedis(t),
  SMTP_URL: 'smtp://127.0.0.1:1',
  MAIL_FROM: 'noreply@example.com',
  RATE_LIMIT_PUBLIC: '1000000',
  SIGN_UPS_PER_ADDRESS: '1000000',
  SIGN_IN_FAILURES_PER_ADDRESS: '1000000'
}
const app = await buildTestApp(t, settings)
const replica = await buildTestApp(t, settings)

const deleteAccount = async (account: Pick<Account, 'headers'>, body: object = { password: PASSWORD }) =>
  await sendAs(app, account, 'DELETE', '/auth/me', body)
const status = async (url: string, { headers }: Pick<Account, 'headers'>, on = replica) =>
  (await on.inject({ url, headers })).statusCode
const readStatus = async (url: string, on = replica) => (await on.inject(url)).statusCode

/** The number of rows in each table that belong to a user. */
async function rowsOf (userId: number): Promise<number[]> {
  const owned = 'account_deletions sessions api_keys mails mail_links landing_pages assets'.split(' ')
  const places = ['users WHERE id', ...owned.map((table) => `${table} WHERE user_id`)]
  const counts = places.map((place, n) => `(SELECT count(*)::integer FROM ${place} = ${userId}) AS c${n}`)
  const [row] = await query(settings.DATABASE_URL as string, `SELECT ${counts.join(', ')}`)
  return Object.values(row ?? {}).map(Number)
}
/** The response waits two seconds for this. */
const untilNothingIsLeftOf = async (userId: number): Promise<boolean> =>
  await until(async () => (await rowsOf(userId)).every((count) => count === 0), 'no rows are left')
const countOf = async (table: string) =>
  (await query(settings.DATABASE_URL as string, `SELECT count(*)::integer AS n FROM ${table}`))[0]?.n

t.test('deleting an account ends all that it has, on every replica', async (t) => {
  const [owner, neighbour] = [await signUp(app), await signUp(app)]
  const other = await signIn(replica, owner)
  const key = await createKey(app, owner, ['pages:read'])
  const [page, kept] = [await createPage(app, owner), await createPage(app, neighbour)]
  await sendAs(app, owner, 'PUT', `/manage/landing_pages/${page.id}/document`, '{"v":2}')
  await sendAs(app, owner, 'PUT', `/manage/landing_pages/${page.id}/draft`, '{"v":3}')
  const { id: trashed } = await createPage(app, owner)
  await sendAs(app, owner, 'DELETE', `/manage/landing_pages/${trashed}`)
  const [file, keptFile] = [
    (await upload(app, owner, 'a')).json(),
    (await upload(app, neighbour, 'b')).json()
  ]
  const pageUrl = `/landing_pages/${page.public_id}`
  t.equal(await readStatus(pageUrl), 200)
  t.equal(await readStatus(pathOf(file)), 200)

  const response = await deleteAccount(owner)
  t.equal(response.statusCode, 204)
  t.equal(response.body, '')
  for (const session of [owner, other]) t.equal(await status('/auth/me', session), 401)
  t.equal(await status('/manage/landing_pages', key), 401)
  for (const token of [owner.refresh_token, other.refresh_token]) {
    const refreshed = await sendAs(replica, NOBODY, 'POST', '/auth/refresh', { refresh_token: token })
    t.equal(refreshed.statusCode, 401)
  }
  t.equal(await signInStatus(replica, owner.user.email), 401)
  t.equal(await readStatus(pageUrl, app), 404)
  await until(async () => await readStatus(pageUrl) === 404, 'the replica has heard of the deletion')
  await untilNothingIsLeftOf(owner.user.id)
  t.equal(await readStatus(pathOf(file)), 404)
  const next = await signUp(replica, owner.user.email)
  t.not(next.user.id, owner.user.id, 'the address is free')
  t.same((await app.inject({ url: '/manage/landing_pages', headers: next.headers })).json(), [])
  for (const table of ['revisions', 'drafts']) {
    t.equal(await countOf(`landing_page_${table} WHERE page_id = '${page.id}'`), 0)
  }

  t.equal(await status('/auth/me', neighbour), 200)
  t.equal(await readStatus(`/landing_pages/${kept.public_id}`), 200)
  t.equal(await readStatus(pathOf(keptFile)), 200)
  t.same((await stored(app)).published, [pathOf(keptFile).split('/').at(-1)])
})

t.test('a mail tells the user, and mails that were waiting for the account are not sent', async (t) => {
  const { headers, user } = await signUp(app)
  t.equal(await countOf(`mails WHERE recipient = '${user.email}'`), 1, 'the confirmation of the address')
  await deleteAccount({ headers })
  const mails = await query(
    settings.DATABASE_URL as string,
    `SELECT kind, user_id, details FROM mails WHERE recipient = '${user.email}'`
  )
  t.same(mails, [{ kind: 'account_deleted', user_id: null, details: null }])
})

t.test('a request without the right password changes nothing', async (t) => {
  const owner = await signUp(app)
  const page = await createPage(app, owner)
  const cases: [object, string][] = [
    [{}, "Password can't be blank"],
    [{ password: null }, "Password can't be blank"],
    [{ password: '' }, "Password can't be blank"],
    [{ password: [PASSWORD] }, 'Password must be a string'],
    [{ password: 'wrong' }, 'Password is wrong'],
    [{ password: `${PASSWORD}\0` }, 'Password is wrong']
  ]
  for (const [body, sentence] of cases) {
    const response = await deleteAccount(owner, body)
    t.equal(response.statusCode, 422, JSON.stringify(body))
    t.same(response.json(), { errors: [sentence] })
  }
  t.equal((await sendAs(app, owner, 'DELETE', '/auth/me')).statusCode, 422)
  t.equal((await deleteAccount({ headers: { authorization: 'Bearer x' } })).statusCode, 401)
  const key = await createKey(app, owner, ['pages:write', 'assets:write'])
  t.equal((await deleteAccount(key)).statusCode, 401, 'API keys are for pages and assets')
  t.equal(await status('/auth/me', owner), 200)
  t.equal(await readStatus(`/landing_pages/${page.public_id}`), 200)
})

t.test('while files cannot be removed, nothing is deleted', async (t) => {
  const owner = await signUp(app)
  const page = await createPage(app, owner)
  const folder = settings.UPLOADS_DIR as string
  await rename(folder, `${folder}-away`)
  const response = await deleteAccount(owner)
  await rename(`${folder}-away`, folder)
  t.equal(response.statusCode, 503)
  t.match(response.headers['retry-after'], /^\d+$/)
  t.equal(await status('/auth/me', owner), 200)
  t.equal(await readStatus(`/landing_pages/${page.public_id}`), 200)
  t.equal((await deleteAccount(owner)).statusCode, 204)
})

t.test('of deletions at once one succeeds, and the others are refused', async (t) => {
  const owner = await signUp(app)
  for (let n = 0; n < 15; n++) await createPage(app, owner)
  const statuses = (await Promise.all(Array.from({ length: 4 }, async () => await deleteAccount(owner))))
    .map(({ statusCode }) => statusCode).sort()
  t.equal(statuses.shift(), 204)
  t.ok(statuses.every((status) => status === 401 || status === 422), String(statuses))
  await untilNothingIsLeftOf(owner.user.id)
})
