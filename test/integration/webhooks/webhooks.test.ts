import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { buildTestApp, createPage as createTextPage, sendAs, signUp, testSettings, type Account,
  type CreatedPage } from '../../helpers/app.ts'
import { startMailServer } from '../../helpers/mail-server.ts'
import { isSignedWith, RECEIVABLE, startReceiver, type Receiver } from '../../helpers/receiver.ts'
import { claimRedis } from '../../helpers/servers.ts'
import { openTransaction, untilBlocked } from '../../helpers/transaction.ts'
import { until } from '../../helpers/until.ts'

// Webhooks as their owner sees them, without Redis, where a change is settled at once.

// The tests mostly wait for messages.
t.jobs = 4

const mailServer = await startMailServer(t)
const settings = { ...await testSettings(t), ...RECEIVABLE, ...mailServer.settings }
const app = await buildTestApp(t, settings)
const UNKNOWN = '019a7c1e-5f60-7c3a-9d2b-0f6a4c8e1b57'

async function call (
  sender: Pick<Account, 'headers'>,
  method: Parameters<typeof sendAs>[2],
  url: string,
  payload?: object,
  on: FastifyInstance = app
) {
  const response = await sendAs(on, sender, method, url, payload)
  return { status: response.statusCode, body: response.body === '' ? undefined : response.json(), response }
}

/** Changes what readers get of a page. */
const write = async (account: Account, { id }: Pick<CreatedPage, 'id'>, document: object) =>
  await call(account, 'PATCH', `/manage/landing_pages/${id}`, { current_data: document })

const unpublishedPage = async (account: Account): Promise<CreatedPage> =>
  (await call(account, 'POST', '/landing_pages', { current_data: { a: 1 }, published: false })).body

/** Lets a test decide when something goes on, and how. */
function gate<T = void> () {
  let release = (_value: T) => {}
  return { promise: new Promise<T>((resolve) => (release = resolve)), release: (value: T) => release(value) }
}

const createPage = async (account: Account, document: object) =>
  await createTextPage(app, account, JSON.stringify(document))

async function createWebhook (account: Account, receiver: Pick<Receiver, 'url'>, more: object = {}) {
  const { status, body } = await call(account, 'POST', '/webhooks', { url: receiver.url, ...more })
  if (status !== 201) throw new Error(`webhook: ${status} ${JSON.stringify(body)}`)
  return body as { id: string, secret: string }
}

/** Creates an account with a webhook, and its receiver. */
async function connect (t: Test, answer?: Parameters<typeof startReceiver>[1], more: object = {}) {
  const account = await signUp(app)
  const receiver = await startReceiver(t, answer)
  return { account, receiver, webhook: await createWebhook(account, receiver, more) }
}

/** Makes what waits for its next attempt due now. */
async function hurry (webhook: { id: string }): Promise<void> {
  const where = { target: webhook.id, state: 'waiting', dueAt: { not: null } }
  await app.database.outboxMessage.updateMany({ where, data: { dueAt: new Date() } })
}

const deliveriesOf = async (account: Account, { id }: { id: string }) =>
  (await call(account, 'GET', `/webhooks/${id}/deliveries`)).body as Record<string, any>[]

/** Waits until a webhook has a message in a state. */
const inState = async (account: Account, webhook: { id: string }, state: string) =>
  await until(async () => (await deliveriesOf(account, webhook)).find((one) => one.state === state), state)

t.test('a webhook gets a signed message for each change that readers see', async (t) => {
  const { account, receiver, webhook } = await connect(t)
  const page = await createPage(account, { a: 1 })
  const created = await receiver.message(1)
  t.match(created, {
    type: 'page.published',
    data: {
      page: { id: page.id, public_id: page.public_id },
      version: 1,
      author: { type: 'user', name: account.user.email },
      merged: 0
    },
    headers: { 'content-type': 'application/json', 'user-agent': /^Landfall\/\d/ }
  })
  const read = await app.inject({ url: `/landing_pages/${page.public_id}` })
  t.equal(created.data.etag, read.headers.etag)
  t.ok(isSignedWith(webhook.secret, created))
  t.notMatch(created.body, 'current_data', 'no document')

  const url = `/manage/landing_pages/${page.id}`
  const post = async (path: string, payload?: object) => await call(account, 'POST', path, payload)
  const bin = `/manage/deleted_pages/${page.id}`
  const steps: [change: () => Promise<{ status: number }>, type: string | null, version: number][] = [
    [async () => await write(account, page, { a: 1 }), null, 1],
    [async () => await write(account, page, { a: 2 }), 'page.published', 2],
    [async () => await call(account, 'PUT', `${url}/draft`, { a: 3 }), null, 2],
    [async () => await post(`${url}/publish`, {}), 'page.published', 3],
    [async () => await post(`${url}/revisions/1/restore`), 'page.published', 4],
    [async () => await post(`${url}/unpublish`), 'page.unpublished', 5],
    [async () => await write(account, page, { a: 4 }), null, 6],
    [async () => await post(`${url}/publish`, {}), 'page.published', 7],
    [async () => await call(account, 'DELETE', url), 'page.deleted', 8],
    [async () => await post(`${bin}/restore`), 'page.published', 9],
    [async () => await call(account, 'DELETE', url), 'page.deleted', 10],
    [async () => await call(account, 'DELETE', bin), null, 10]
  ]
  let count = 1
  for (const [change, type, version] of steps) {
    t.ok((await change()).status < 300, `version ${version}`)
    if (type === null) continue
    const message = await receiver.message(++count)
    t.match(message, { type, data: { version, merged: 0 } })
    t.equal(message.data.etag === null, type !== 'page.published')
    await until(async () => (await deliveriesOf(account, webhook))[0]?.state === 'delivered')
  }
  t.equal(receiver.messages.length, count)
  t.equal(new Set(receiver.messages.map(({ id }) => id)).size, count, 'each has an id of its own')
  t.match((await deliveriesOf(account, webhook))[0], {
    id: receiver.messages.at(-1)?.id,
    type: 'page.deleted',
    page: { id: page.id, public_id: page.public_id },
    version: 10,
    state: 'delivered',
    attempts: 1,
    status: 204,
    error: null,
    next_attempt_at: null
  })
})

t.test('a page that is removed without the trash, or by the operator, sends a message', async (t) => {
  const noTrash = await buildTestApp(t, { ...settings, TRASH_DAYS: '0' })
  const { account, receiver } = await connect(t, undefined, { events: ['page.deleted'] })
  const page = await createPage(account, { a: 1 })
  await call(account, 'DELETE', `/manage/landing_pages/${page.id}`, undefined, noTrash)
  const data = { page: { id: page.id }, version: 2, etag: null }
  t.match(await receiver.message(1), { type: 'page.deleted', data })
})

t.test('a scheduled publication sends a message that names who has set the schedule', async (t) => {
  const { account, receiver } = await connect(t)
  const page = await unpublishedPage(account)
  const schedule = { publish_at: new Date(Date.now() + 3_600_000).toISOString(), unpublish_at: null }
  t.equal((await call(account, 'PUT', `/manage/landing_pages/${page.id}/schedule`, schedule)).status, 200)
  const publishAt = new Date()
  await app.database.landingPageSchedule.update({ where: { pageId: page.id }, data: { publishAt } })
  const message = await receiver.message(1)
  const author = { type: 'user', name: account.user.email }
  t.match(message, { type: 'page.published', data: { page: { id: page.id }, version: 2, author } })
  t.ok(Date.parse(message.timestamp) >= publishAt.getTime())
})

t.test('a webhook gets only the events and the pages that it wants', async (t) => {
  const account = await signUp(app)
  const receiver = await startReceiver(t)
  const [one, other] = [await createPage(account, { a: 1 }), await createPage(account, { a: 1 })]
  await createWebhook(account, receiver, { events: ['page.unpublished'], pages: [one.id] })
  for (const page of [other, one]) {
    await write(account, page, { a: 2 })
    await call(account, 'POST', `/manage/landing_pages/${page.id}/unpublish`)
  }
  t.match(await receiver.message(1), { type: 'page.unpublished', data: { page: { id: one.id } } })
  t.equal(receiver.messages.length, 1)
})

t.test('of the messages of a page one is under way and one waits, which stands for the others', async (t) => {
  const held = gate<number>()
  const answer = async (_message: unknown, count: number) => count > 1 ? 204 : await held.promise
  const { account, receiver, webhook } = await connect(t, answer)
  const page = await createPage(account, { n: 0 })
  await receiver.message(1)
  for (let n = 1; n <= 20; n++) await write(account, page, { n })
  const states = (await deliveriesOf(account, webhook))
    .map(({ state, version, merged }) => [state, version, merged])
  t.match(states, [['waiting', 21, 19], ['sending', 1, 0]])
  held.release(500)
  const second = await receiver.message(2)
  t.match(second, { data: { version: 21, merged: 20 } }, 'the failed one is replaced, too')
  t.not(second.id, receiver.messages[0]?.id)
  t.match(await inState(account, webhook, 'delivered'), { version: 21, attempts: 2 })
})

t.test('silent receivers of an account leave room for others', async (t) => {
  const [busy, other] = [await signUp(app), await signUp(app)]
  const held = gate()
  const slow = await startReceiver(t, async (_message, count) => {
    if (count > 10) await held.promise
    return 204
  })
  const webhooks = []
  for (let count = 1; count <= 10; count++) webhooks.push(await createWebhook(busy, slow))
  await createPage(busy, {})
  // A webhook that has responded gets four messages at a time.
  for (const webhook of webhooks) await inState(busy, webhook, 'delivered')
  for (let a = 0; a < 4; a++) await createPage(busy, { a })
  await slow.message(11)
  const receiver = await startReceiver(t)
  await createWebhook(other, receiver)
  await createPage(other, {})
  await receiver.message(1)
  const { length } = slow.messages
  t.ok(length <= 20, `${length} - 10 of the account at a time, although 40 were due earlier`)
  held.release()
  await slow.message(50)
})

t.test('after a receiver was away, all that waits is sent as soon as something arrives', async (t) => {
  let status = 500
  const { account, receiver, webhook } = await connect(t, () => status)
  const [one, other] = [await createPage(account, { n: 1 }), await createPage(account, { n: 2 })]
  const waiting = async () =>
    (await deliveriesOf(account, webhook)).filter(({ state, attempts }) =>
      state === 'waiting' && attempts > 0
    )
  await until(async () => (await waiting()).length === 2)
  const tomorrow = new Date(Date.now() + 86_400_000)
  const where = { target: webhook.id, state: 'waiting' }
  const later = async () => await app.database.outboxMessage.updateMany({ where, data: { dueAt: tomorrow } })
  await later()
  status = 204
  // A change takes the place of the message that waits, and its time.
  await write(account, one, { n: 3 })
  const long = new Date(Date.now() - 61_000)
  await app.database.webhook.update({ where: { id: webhook.id }, data: { failingSince: long } })
  t.equal((await waiting()).length, 2)
  const count = receiver.messages.length
  t.equal((await call(account, 'POST', `/webhooks/${webhook.id}/test`)).status, 202)
  await receiver.message(count + 3)
  const sent = receiver.messages.slice(count).map(({ data }) => data.page?.id)
  t.same(new Set(sent), new Set([undefined, one.id, other.id]))

  // The owner can ask for it, too.
  const asked: [string, string, object?][] = [
    ['POST', '/sync'],
    ['POST', '/deliveries/DELIVERY/redeliver'],
    ['PATCH', '', { active: true }]
  ]
  for (const [method, path, body] of asked) {
    status = 500
    await write(account, one, { path })
    const [delivery] = await until(async () => {
      const found = await waiting()
      return found.length === 1 && found
    })
    await later()
    status = 204
    const before = receiver.messages.length
    const url = `/webhooks/${webhook.id}${path.replace('DELIVERY', delivery?.id as string)}`
    await call(account, method as 'POST', url, body)
    await until(() => receiver.messages.slice(before).some(({ data }) => data.page?.id === one.id), path)
    // All of them: one under way to another page would get the next status.
    await until(async () =>
      (await deliveriesOf(account, webhook)).every(({ state }) => state !== 'waiting' && state !== 'sending')
    )
  }
})

t.test('a message that fails is tried again with the same id and body', async (t) => {
  const { account, receiver, webhook } = await connect(t, (_message, count) => count < 3 ? 503 : 200)
  await createPage(account, { a: 1 })
  await receiver.message(1)
  const waiting = await until(async () =>
    (await deliveriesOf(account, webhook)).find((one) => one.attempts === 1 && one.state === 'waiting')
  )
  t.match(waiting, { status: 503, error: 'The response had the status 503' })
  const wait = Date.parse(waiting.next_attempt_at as string) - Date.parse(waiting.last_attempt_at as string)
  t.ok(wait >= 4000 && wait < 16_000, `${wait} ms`)
  for (const count of [2, 3]) {
    await until(async () => {
      await hurry(webhook)
      return receiver.messages.length >= count
    })
  }
  const [first, ...more] = receiver.messages
  for (const { id, body } of more) t.same({ id, body }, { id: first?.id, body: first?.body })
  t.match(await inState(account, webhook, 'delivered'), { attempts: 3, status: 200, error: null })
})

t.test('a 410 pauses a webhook until its owner activates it, and the latest state is sent then', async (t) => {
  let status = 410
  const { account, receiver, webhook } = await connect(t, () => status)
  const page = await createPage(account, { n: 0 })
  const url = `/webhooks/${webhook.id}`
  await until(async () => (await call(account, 'GET', url)).body.active === false)
  t.match((await call(account, 'GET', url)).body, { paused_reason: 'gone', failing_since: /^2/ })
  for (const n of [1, 2]) await write(account, page, { n })
  await until(async () =>
    (await deliveriesOf(account, webhook)).every((one) =>
      one.state === 'waiting' && one.next_attempt_at === null
    )
  )
  t.match(await deliveriesOf(account, webhook), [{ version: 3, merged: 2 }])
  t.equal(receiver.messages.length, 1)
  status = 204
  const { body: active } = await call(account, 'PATCH', url, { active: true })
  t.match(active, { active: true, paused_reason: null, failing_since: null })
  t.match(await receiver.message(2), { data: { version: 3, merged: 2 } })
})

t.test('three days of failures pause a webhook and send one mail; the message stays', async (t) => {
  const { account, receiver, webhook } = await connect(t, () => 500)
  await createPage(account, { n: 0 })
  await receiver.message(1)
  await inState(account, webhook, 'waiting')
  const long = new Date(Date.now() - 70 * 3_600_000)
  await app.database.webhook.update({ where: { id: webhook.id }, data: { failingSince: long } })
  await app.database.outboxMessage.updateMany({ where: { target: webhook.id }, data: { attempts: 10 } })
  await hurry(webhook)
  t.match(await inState(account, webhook, 'failed'), { attempts: 11, status: 500, next_attempt_at: null })
  await until(async () =>
    (await call(account, 'GET', `/webhooks/${webhook.id}`)).body.paused_reason === 'failing'
  )
  const mail = await mailServer.mailTo(account.user.email, 2)
  t.match(mail.headers, { subject: 'A webhook was paused' })
  t.notMatch(mail.text, receiver.url, 'what the owner has written is not in a mail')
  await createPage(account, { n: 1 })
  await until(async () => (await deliveriesOf(account, webhook)).some(({ state }) => state === 'waiting'))
  t.equal(receiver.messages.length, 2)
})

t.test('with batch_seconds one message speaks for all pages', async (t) => {
  const { account, receiver, webhook } = await connect(t, undefined, { batch_seconds: 2 })
  const startedAt = Date.now()
  for (const a of [1, 2, 3]) await createPage(account, { a })
  const message = await receiver.message(1)
  t.same(JSON.parse(message.body).data.merged, 2)
  t.match(message, { type: 'pages.changed', data: { since: /^\d{4}-/ } })
  t.ok(Date.now() - startedAt >= 2000, 'it has waited')
  t.match(await inState(account, webhook, 'delivered'), { page: null, version: null })
})

t.test('a test message is tried once, also while the webhook is paused', async (t) => {
  const { account, receiver, webhook } = await connect(t, (_message, count) => count === 1 ? 500 : 204)
  await call(account, 'PATCH', `/webhooks/${webhook.id}`, { active: false })
  t.match(await call(account, 'POST', `/webhooks/${webhook.id}/test`), { status: 202, body: undefined })
  t.same(JSON.parse((await receiver.message(1)).body).data, {})
  t.match(await inState(account, webhook, 'failed'), { type: 'webhook.test', attempts: 1 })
  await call(account, 'POST', `/webhooks/${webhook.id}/test`)
  t.ok(isSignedWith(webhook.secret, await receiver.message(2)))
  const { body } = await call(account, 'GET', `/webhooks/${webhook.id}`)
  t.match(body, { active: false, failing_since: null })
})

t.test('sync sends the state of every page, and redeliver that of one', async (t) => {
  const account = await signUp(app)
  const receiver = await startReceiver(t)
  const [page, deleted] = [await createPage(account, {}), await createPage(account, {})]
  for (let n = 2; n < 120; n++) await createPage(account, { n })
  await call(account, 'POST', `/manage/landing_pages/${page.id}/unpublish`)
  await call(account, 'DELETE', `/manage/landing_pages/${deleted.id}`)
  const webhook = await createWebhook(account, receiver)
  t.match(await call(account, 'POST', `/webhooks/${webhook.id}/sync`), { status: 202, body: { queued: 119 } })
  await receiver.message(119)
  const types = receiver.messages.map(({ type }) => type)
  t.equal(types.filter((type) => type === 'page.published').length, 118)
  t.equal(types.filter((type) => type === 'page.unpublished').length, 1)
  t.equal(new Set(receiver.messages.map(({ data }) => data.page.id)).size, 119)

  const where = { target: webhook.id, pageId: page.id }
  const { id } = await app.database.outboxMessage.findFirstOrThrow({ where })
  await until(async () => (await deliveriesOf(account, webhook)).every(({ state }) => state === 'delivered'))
  const url = `/webhooks/${webhook.id}/deliveries/${id}/redeliver`
  t.match(await call(account, 'POST', url), { status: 202, body: undefined })
  const again = await receiver.message(120)
  t.match(again, { type: 'page.unpublished', data: { page: { id: page.id } } })
  t.not(again.id, id)
  await call(account, 'DELETE', `/manage/landing_pages/${page.id}`)
  await receiver.message(121)
  await call(account, 'DELETE', `/manage/deleted_pages/${page.id}`)
  await until(async () => (await deliveriesOf(account, webhook))[0]?.state === 'delivered')
  await call(account, 'POST', url)
  t.match(await receiver.message(122), { type: 'page.deleted', data: { page: { id: page.id } } })
})

t.test('with replicas, what an owner asks for waits until they have the version', async (t) => {
  const replica = await buildTestApp(t, { ...settings, REDIS_URL: await claimRedis(t) })
  const account = await signUp(app)
  await createPage(account, {})
  const webhook = await createWebhook(account, { url: 'https://example.com/hook' })
  const where = { target: webhook.id }
  const sync = async () => {
    await call(account, 'POST', `/webhooks/${webhook.id}/sync`, undefined, replica)
    const { dueAt, settledAt } = await app.database.outboxMessage.findFirstOrThrow({ where })
    return { wait: (dueAt?.getTime() ?? 0) - Date.now(), isSettled: dueAt !== null && dueAt >= settledAt }
  }
  const first = await sync()
  t.ok(first.isSettled && first.wait > 0 && first.wait <= 61_000, `${first.wait} ms`)
  const tomorrow = new Date(Date.now() + 86_400_000)
  await app.database.outboxMessage.updateMany({ where, data: { dueAt: tomorrow } })
  const second = await sync()
  t.ok(second.isSettled && second.wait > 0 && second.wait <= 61_000, `${second.wait} ms`)
})

t.test('sync and redeliver wait for a change of the page, and send its version', async (t) => {
  const own = await testSettings(t) // a database in which no other test waits
  const url = own.DATABASE_URL as string
  const app = await buildTestApp(t, { ...own, ...RECEIVABLE })
  const account = await signUp(app)
  const receiver = await startReceiver(t)
  await createTextPage(app, account)
  const { body: webhook } = await call(account, 'POST', '/webhooks', { url: receiver.url }, app)
  const askDuringChange = async (path: string) => {
    const { client } = await openTransaction(t, url)
    await client.query('UPDATE landing_pages SET version = version + 1')
    const asked = call(account, 'POST', `/webhooks/${webhook.id}/${path}`, undefined, app)
    await untilBlocked(url, 1)
    await client.query('COMMIT')
    t.equal((await asked).status, 202)
  }
  await askDuringChange('sync')
  const { id, data } = await receiver.message(1)
  t.equal(data.version, 2)
  await askDuringChange(`deliveries/${id}/redeliver`)
  t.match(await receiver.message(2), { data: { version: 3 } })
})

t.test('what an owner asks for is due within a minute from now, whenever the page was changed', async (t) => {
  const account = await signUp(app)
  const day = 86_400_000
  for (const days of [-365, 1]) {
    const { id } = await createPage(account, {})
    const updatedAt = new Date(Date.now() + days * day)
    await app.database.landingPage.update({ where: { id }, data: { updatedAt } })
  }
  const webhook = await createWebhook(account, await startReceiver(t))
  const startedAt = Date.now()
  await call(account, 'POST', `/webhooks/${webhook.id}/sync`)
  const messages = await app.database.outboxMessage.findMany({ where: { target: webhook.id } })
  const waits = messages.map(({ settledAt }) => settledAt.getTime() - startedAt)
  t.equal(waits.length, 2)
  t.ok(waits.every((wait) => wait >= 0 && wait <= 61_000 + Date.now() - startedAt), waits.join())
})

t.test('after a change of the secret both sign for 24 hours', async (t) => {
  const { account, receiver, webhook } = await connect(t)
  const { status, body: { secret } } = await call(account, 'POST', `/webhooks/${webhook.id}/secret`)
  t.equal(status, 200)
  t.not(secret, webhook.secret)
  await call(account, 'POST', `/webhooks/${webhook.id}/test`)
  const message = await receiver.message(1)
  for (const one of [secret, webhook.secret]) t.ok(isSignedWith(one, message))
  await app.database.webhook.update({ where: { id: webhook.id }, data: { previousUntil: new Date() } })
  await until(async () => (await deliveriesOf(account, webhook))[0]?.state === 'delivered')
  await call(account, 'POST', `/webhooks/${webhook.id}/test`)
  const later = await receiver.message(2)
  t.same([secret, webhook.secret].map((one) => isSignedWith(one, later)), [true, false])
})

t.test('an account has at most ten webhooks, also if they are created at the same time', async (t) => {
  const account = await signUp(app)
  const receiver = { url: 'https://example.com/hook' }
  const create = async () => await call(account, 'POST', '/webhooks', receiver)
  const results = await Promise.all(Array.from({ length: 15 }, create))
  t.equal(results.filter(({ status }) => status === 201).length, 10)
  const refused = results.filter(({ status }) => status === 422)
  t.equal(refused.length, 5)
  t.match(refused[0]?.body, { errors: [/10 webhooks/] })
  const { body: listed } = await call(account, 'GET', '/webhooks?limit=100')
  t.equal(listed.length, 10)
  t.notMatch(JSON.stringify(listed), 'whsec_')
  t.equal((await call(account, 'DELETE', `/webhooks/${listed[0].id}`)).status, 204)
  t.equal((await create()).status, 201)
})

t.test('a webhook of another account is not found', async (t) => {
  const [owner, other] = [await signUp(app), await signUp(app)]
  const webhook = await createWebhook(owner, { url: 'https://example.com/hook' })
  await call(owner, 'POST', `/webhooks/${webhook.id}/test`)
  const [{ id: delivery }] = await deliveriesOf(owner, webhook) as [{ id: string }]
  for (const id of [webhook.id, UNKNOWN, 'x']) {
    const routes = [
      ['GET', ''],
      ['PATCH', ''],
      ['DELETE', ''],
      ['POST', '/secret'],
      ['POST', '/test'],
      ['POST', '/sync'],
      ['GET', '/deliveries'],
      ['POST', `/deliveries/${delivery}/redeliver`]
    ] as const
    for (const [method, path] of routes) {
      const payload = method === 'PATCH' ? { url: 'https://example.org/stolen' } : undefined
      const refused = await call(other, method, `/webhooks/${id}${path}`, payload)
      t.match(refused, { status: 404, body: { errors: ['Not found'] } }, `${method} ${path} of ${id}`)
    }
  }
  const foreign = await createWebhook(other, { url: 'https://example.com/hook' })
  t.equal((await call(other, 'POST', `/webhooks/${foreign.id}/deliveries/${delivery}/redeliver`)).status, 404)
  t.match((await call(owner, 'GET', `/webhooks/${webhook.id}`)).body, { url: 'https://example.com/hook' })
})

t.test('a PATCH checks what a POST checks, and reports every problem', async (t) => {
  const account = await signUp(app)
  const webhook = await createWebhook(account, { url: 'https://example.com/hook' })
  const wrong = { url: 'https://10.0.0.1/', batch_seconds: 3601, pages: ['x'], events: ['page.created'] }
  const told = [/^Events must/, /^Pages must list ids/, /^Batch seconds must/, /^Url must not have a private/]
  for (const [method, url] of [['POST', '/webhooks'], ['PATCH', `/webhooks/${webhook.id}`]] as const) {
    const { status, body } = await call(account, method, url, wrong)
    t.equal(status, 422)
    t.equal(body.errors.length, 4, body.errors.join('; '))
    t.match(body.errors, told)
  }
  const change = { name: null, pages: null, user_id: 1 }
  const { body } = await call(account, 'PATCH', `/webhooks/${webhook.id}`, change)
  t.match(body, { url: 'https://example.com/hook', name: null, pages: null, active: true })
})

t.test('a deleted webhook, and those of a deleted account, leave no messages behind', async (t) => {
  const { account, receiver, webhook } = await connect(t, () => 500)
  const other = await createWebhook(account, receiver)
  await createPage(account, { a: 1 })
  await receiver.message(2)
  const count = async (target: string) => await app.database.outboxMessage.count({ where: { target } })
  t.equal((await call(account, 'DELETE', `/webhooks/${webhook.id}`)).status, 204)
  t.equal(await count(webhook.id), 0)
  t.equal(await count(other.id), 1)
  t.equal((await call(account, 'DELETE', '/auth/me', { password: 'correct horse battery' })).status, 204)
  await until(async () => await count(other.id) === 0)
})

t.test('WEBHOOKS=false turns the routes off', async (t) => {
  const off = await buildTestApp(t, { ...settings, WEBHOOKS: 'false' })
  const account = await signUp(off)
  t.equal((await call(account, 'GET', '/webhooks', undefined, off)).status, 404)
  t.equal((await call(account, 'POST', '/landing_pages', { current_data: {} }, off)).status, 201)
})

t.test('the log keeps a month and a thousand messages', async (t) => {
  const account = await signUp(app)
  const webhook = await createWebhook(account, { url: 'https://example.com/hook' })
  const row = (days: number, state: string) => ({
    id: `019a7c1e-0000-7000-8000-${String(++number).padStart(12, '0')}`,
    target: webhook.id,
    userId: account.user.id,
    pageId: `019a7c1e-0000-7000-8000-${String(number).padStart(12, '0')}`,
    type: 'page.published',
    state,
    dueAt: null,
    settledAt: new Date(),
    changedAt: new Date(Date.now() - days * 86_400_000)
  })
  let number = 0
  const rows = [
    ...Array.from({ length: 10 }, () => row(31, 'delivered')),
    ...Array.from({ length: 5 }, () => row(40, 'waiting')),
    ...Array.from({ length: 1200 }, () => row(1, 'failed'))
  ]
  await app.database.outboxMessage.createMany({ data: rows })
  const { pruneMessages } = await import('../../../src/modules/webhooks/webhook-repository.ts')
  t.equal(await pruneMessages(app.database, new AbortController().signal), 210)
  t.equal(await app.database.outboxMessage.count({ where: { target: webhook.id, state: 'failed' } }), 1000)
  t.equal(await app.database.outboxMessage.count({ where: { target: webhook.id, state: 'waiting' } }), 5)
})
