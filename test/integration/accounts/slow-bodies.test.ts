import t, { type Test } from 'tap'
import { clock } from '../../../src/infra/system/clock.ts'
import { replaceClock } from '../../helpers/clock.ts'
import { Database } from '../../../src/infra/postgres/database.ts'
import { file, form, FORM, noise } from '../../helpers/assets.ts'
import { stored } from '../../helpers/stores.ts'
import { buildTestApp, createPage, listen, sendAs, signUp, testSettings,
  type Account } from '../../helpers/app.ts'
import { connection, requestWith } from '../../helpers/raw.ts'
import { createProxy } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'

// The session is checked before the body is read, and again before the write if a second has passed.

const direct = await testSettings(t)
const proxy = await createProxy(t, direct.DATABASE_URL as string)
const app = await buildTestApp(t, { ...direct, DATABASE_URL: proxy.url, DATABASE_TIMEOUT_MS: '2000' })
const url = await listen(app)
const replica = await buildTestApp(t, direct)

/** Everything that the writes of an owner can change. */
const kept = async () => ({
  pages: await replica.database.landingPage.findMany({ orderBy: { id: 'asc' } }),
  assets: await replica.database.asset.count(),
  ...await stored(app)
})

interface Write {
  readonly method: 'POST' | 'PATCH'
  readonly path: string
  readonly type: string
  readonly body: Buffer
  /** The status of a successful response. */
  readonly status: number
}

const WRITES: Record<string, (account: Account) => Promise<Write>> = {
  'an upload': async () => ({
    method: 'POST',
    path: '/assets',
    type: FORM,
    body: form(file(noise(100_000))),
    status: 201
  }),
  'a change': async (account) => ({
    method: 'PATCH',
    path: `/manage/landing_pages/${(await createPage(app, account)).id}`,
    type: 'application/json',
    body: Buffer.from('{"current_data":{"v":2}}'),
    status: 200
  })
}

/**
 * Sends half of a request and waits until its session is checked. The returned function sends the other half,
 * `afterMs` later on the service's clock, and returns the response.
 */
async function sendHalf (t: Test, account: Account, { method, path, type, body }: Write) {
  await app.database.session.updateMany({ where: { userId: account.user.id }, data: { lastUsedAt: null } })
  const asked = t.capture(Database.prototype, 'run', Database.prototype.run)
  const real = clock.now
  let ahead = 0
  replaceClock(t, () => real() + ahead)
  const raw = connection(t, url)
  const request = requestWith(body, method, path, { ...account.headers, 'Content-Type': type })
  const half = request.length - Math.ceil(body.length / 2)
  raw.send(request.subarray(0, half))
  // The session is checked, then its use is recorded. Background work runs statements, too.
  const isLast = ({ args: [{ text }] }: ReturnType<typeof asked>[number]) => text.includes('SET last_used_at')
  const last = await until(() => asked().find(isLast), 'the use of the session is recorded')
  await (last as { returned?: Promise<unknown> }).returned
  await new Promise((resolve) => setImmediate(resolve))
  return async (afterMs: number) => {
    ahead = afterMs
    raw.send(request.subarray(half))
    return await raw.response()
  }
}

for (const [name, writeOf] of Object.entries(WRITES)) {
  t.test(`${name} gets 401 if its session ends while the body arrives`, async (t) => {
    const account = await signUp(app)
    const write = await writeOf(account)
    const before = await kept()
    const sendRest = await sendHalf(t, account, write)
    const token = { refresh_token: account.refresh_token }
    t.equal((await sendAs(replica, account, 'DELETE', '/auth/sign_out', token)).statusCode, 204)
    const { status, head, body } = await sendRest(1001)
    t.equal(status, 401, body.toString())
    t.match(head, /\r\nwww-authenticate: Bearer error="invalid_token"\r\n/i)
    t.strictSame(await kept(), before)
  })

  t.test(`${name} with a slow body succeeds while its session is valid`, async (t) => {
    const account = await signUp(app)
    const write = await writeOf(account)
    const { status, body } = await (await sendHalf(t, account, write))(600_000)
    t.equal(status, write.status, body.toString())
  })
}

t.test('an upload gets 503 and stores nothing if the database cannot check its session again', async (t) => {
  const account = await signUp(app)
  const before = await kept()
  const sendRest = await sendHalf(t, account, await WRITES['an upload']!(account))
  proxy.blackhole()
  const { status, body } = await sendRest(1001)
  t.equal(status, 503, body.toString())
  t.strictSame(await kept(), before)
})
