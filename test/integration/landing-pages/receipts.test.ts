import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http'
import { request as send } from 'node:http'
import { promisify } from 'node:util'
import t from 'tap'
import type { FastifyInstance } from 'fastify'
import { buildTestApp, createPage, listen, sendAs, signUp, type Account } from '../../helpers/app.ts'
import { claimRedis, createProxy, startRedisServer } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'

// Prefer: wait on writes of pages.

interface Write {
  readonly method: 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly url: string
  readonly payload?: string
  readonly type?: string
}

// The tests mostly wait for receipts.
t.jobs = 4

const write = async (app: FastifyInstance, account: Account, prefer: string, write: Write) =>
  await sendAs(app, account, write.method, write.url, write.payload, {
    ...prefer !== '' && { prefer },
    ...write.type !== undefined && { 'content-type': write.type }
  })

type Response = Awaited<ReturnType<typeof write>>

const receiptOf = ({ headers }: { readonly headers: IncomingHttpHeaders | OutgoingHttpHeaders }) => [
  headers['preference-applied'],
  headers['landfall-publication']
]
const FULL = ['wait', 'replicas']
const NONE = [undefined, undefined]

/** Makes pages, and returns for each kind of write one that changes what readers get, with its status. */
async function writesOf (app: FastifyInstance, owner: Account): Promise<[number, Write][]> {
  const url = '/manage/landing_pages'
  const page = async () => (await createPage(app, owner)).id
  const prepare = async (method: Write['method'], path: string, payload?: string) =>
    await write(app, owner, '', { method, url: path, ...payload !== undefined && { payload } })
  const [drafted, unpublished, restored, deleted] = [await page(), await page(), await page(), await page()]
  await prepare('PUT', `${url}/${drafted}/draft`, '{"a":"draft"}')
  await prepare('POST', `${url}/${unpublished}/unpublish`)
  await prepare('PUT', `${url}/${restored}/document`, '{"a":"second version"}')
  await prepare('DELETE', `${url}/${deleted}`)
  const payload = '{"a":1}'
  const type = 'application/merge-patch+json'
  return [
    [201, { method: 'POST', url: '/landing_pages', payload: '{"current_data":{}}' }],
    [200, { method: 'PATCH', url: `${url}/${await page()}`, payload: '{"current_data":{"a":1}}' }],
    [204, { method: 'PUT', url: `${url}/${await page()}/document`, payload }],
    [204, { method: 'PATCH', url: `${url}/${await page()}/document`, payload, type }],
    [201, { method: 'PUT', url: `${url}/by-key/new`, payload }],
    [200, { method: 'POST', url: `${url}/${drafted}/publish` }],
    [200, { method: 'POST', url: `${url}/${unpublished}/publish` }],
    [200, { method: 'POST', url: `${url}/${await page()}/publish` }], // is published already
    [200, { method: 'POST', url: `${url}/${await page()}/unpublish` }],
    [200, { method: 'POST', url: `${url}/${restored}/revisions/1/restore` }],
    [200, { method: 'POST', url: `/manage/deleted_pages/${deleted}/restore` }],
    [204, { method: 'DELETE', url: `${url}/${await page()}` }]
  ]
}

t.test('each write that readers notice waits until replicas have it, with its usual response', async (t) => {
  const app = await buildTestApp(t, { REDIS_URL: await claimRedis(t) })
  const owner = await signUp(app)
  const writes = await writesOf(app, owner)
  const startedAt = performance.now()
  const responses = await Promise.all(writes.map(async ([, one]) => await write(app, owner, 'wait=20', one)))
  t.ok(performance.now() - startedAt >= 2990, 'replicas may take 3 s')
  for (const [index, [status, { method, url }]] of writes.entries()) {
    t.equal(responses[index]?.statusCode, status, `${method} ${url}`)
    t.same(receiptOf(responses[index] as Response), FULL, `${method} ${url}`)
  }
  t.equal(responses[1]?.json().current_data.a, 1)
})

t.test('without Redis a write is settled at once, also without a trash', async (t) => {
  const app = await buildTestApp(t, { TRASH_DAYS: '0' })
  const owner = await signUp(app)
  const { id } = await createPage(app, owner)
  const url = `/manage/landing_pages/${id}/document`
  const put = { method: 'PUT', url, payload: '{}' } as const
  for (const prefer of ['wait=1', 'Wait = "60"', 'respond-async, wait=5;x=y', 'a="b, \\"", wait=9']) {
    t.same(receiptOf(await write(app, owner, prefer, put)), FULL, prefer)
  }
  for (const prefer of ['', 'wait', 'wait=0', 'wait=61', 'wait=1e1', 'wait=-1', 'await=5', 'a="wait=5"']) {
    t.same(receiptOf(await write(app, owner, prefer, put)), NONE, prefer)
  }
  const draft = { method: 'PUT', url: `/manage/landing_pages/${id}/draft`, payload: '{}' } as const
  t.same(receiptOf(await write(app, owner, 'wait=5', draft)), NONE, 'no reader gets a draft')
  const wrong = { ...put, payload: '1' }
  t.same(receiptOf(await write(app, owner, 'wait=5', wrong)), NONE, 'a refused write')
  const removed = await write(app, owner, 'wait=5', { method: 'DELETE', url: `/manage/landing_pages/${id}` })
  t.same([removed.statusCode, ...receiptOf(removed)], [204, ...FULL])
})

t.test('a write has a receipt if Redis is back in time', async (t) => {
  const redis = await startRedisServer(t)
  const proxy = await createProxy(t, redis.url)
  const app = await buildTestApp(t, { REDIS_URL: proxy.url })
  const owner = await signUp(app)
  const { id } = await createPage(app, owner)
  const put = (payload: string) =>
    ({ method: 'PUT', url: `/manage/landing_pages/${id}/document`, payload }) as const
  await proxy.refuse()
  await until(() => !app.redisClient!.reachable)
  const waiting = write(app, owner, 'wait=50', put('{"a":1}'))
  const late = await write(app, owner, 'wait=1', put('{"a":2}'))
  t.same([late.statusCode, ...receiptOf(late)], [204, ...NONE])
  await proxy.restore()
  t.same(receiptOf(await waiting), FULL)
})

/** Sends a PUT over a connection of its own. */
function sendPut (url: string, { headers }: Account, id: string) {
  const request = send(`${url}/manage/landing_pages/${id}/document`, {
    method: 'PUT',
    headers: { ...headers, prefer: 'wait=50', 'content-type': 'application/json' }
  })
  request.end('{"put":true}')
  const response = new Promise<unknown[]>((resolve, reject) => {
    request.on('error', reject)
    request.on('response', (response) => {
      response.resume()
      resolve([response.statusCode, ...receiptOf(response)])
    })
  })
  response.catch(() => {})
  return { request, response }
}

t.test('the 101st waiting request of an account gets no receipt', async (t) => {
  const redis = await startRedisServer(t)
  const app = await buildTestApp(t, { REDIS_URL: redis.url })
  const url = await listen(app)
  const owner = await signUp(app)
  const { id } = await createPage(app, owner)
  await redis.stop()
  await until(() => !app.redisClient!.reachable)
  const sent = Array.from({ length: 101 }, () => sendPut(url, owner, id))
  t.same(await Promise.race(sent.map(async ({ response }) => await response)), [204, ...NONE])
  const other = await signUp(app)
  const { id: otherId } = await createPage(app, other)
  const ofOther = sendPut(url, other, otherId)

  for (const { request } of sent) request.destroy()
  const connections = promisify(app.server.getConnections.bind(app.server))
  await until(async () => await connections() === 1, 'the clients have left')
  const last = sendPut(url, owner, id)
  await redis.start()
  t.same(await ofOther.response, [204, ...FULL], 'other accounts wait')
  t.same(await last.response, [204, ...FULL], 'clients that leave make room')
})
