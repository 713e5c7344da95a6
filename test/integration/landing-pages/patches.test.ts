import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { clock } from '../../../src/infra/system/clock.ts'
import { KeyedSemaphore } from '../../../src/infra/system/semaphore.ts'
import { Patcher } from '../../../src/modules/landing-pages/patch/patcher.ts'
import { buildTestApp, createKey, createPage, documentTag, sendAs, signIn, signUp, testSettings,
  type Account } from '../../helpers/app.ts'
import { replaceClock } from '../../helpers/clock.ts'
import { claimRedis } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'

// PATCH of a document: JSON Patch and JSON Merge Patch, applied to its text. test/unit/landing-pages/patch
// tests what patches do.

const settings = { ...await testSettings(t), REDIS_URL: await claimRedis(t) }
const app = await buildTestApp(t, settings)
const owner = await signUp(app)

const JSON_PATCH = 'application/json-patch+json'
const MERGE_PATCH = 'application/merge-patch+json'
const urlOf = (id: string): string => `/manage/landing_pages/${id}/document`

interface Sent {
  readonly id: string
  readonly payload?: string | Buffer
  readonly type?: string
  readonly headers?: Record<string, string>
  readonly account?: Account
  readonly replica?: FastifyInstance
}

const patch = async ({ id, payload, type = JSON_PATCH, headers, account = owner, replica = app }: Sent) =>
  await sendAs(replica, account, 'PATCH', urlOf(id), payload, {
    ...type !== '' && { 'content-type': type },
    ...headers
  })
const read = async (id: string): Promise<string> => (await sendAs(app, owner, 'GET', urlOf(id))).body
const replace = (path: string, value: string): string =>
  `[{"op":"replace","path":"${path}","value":${value}}]`

t.test('a JSON Patch changes what it names, and no other byte', async (t) => {
  const document = '{\r\n  "big" : 1e400,\r\n  "price": 12345678901234567890, "n": -0\r\n}'
  const page = await createPage(app, owner, document)
  const response = await patch({ id: page.id, payload: replace('/price', '1.50') })
  t.equal(response.statusCode, 204)
  const body = '{\r\n  "big" : 1e400,\r\n  "price": 1.50, "n": -0\r\n}'
  const stored = await sendAs(app, owner, 'GET', urlOf(page.id))
  t.match(stored, { body, headers: { etag: response.headers.etag } })
  t.equal((await app.inject(`/landing_pages/${page.public_id}`)).body, body, 'readers see it')
})

t.test('a JSON Merge Patch changes what it names, and no other byte', async (t) => {
  const page = await createPage(app, owner, '{"a": {"b": 1e400, "c": 1.0}, "d": "\\u00e9"}')
  const payload = '{"a": {"c": null}, "e":\t[null]}'
  t.equal((await patch({ id: page.id, payload, type: MERGE_PATCH })).statusCode, 204)
  t.equal(await read(page.id), '{"a": {"b": 1e400}, "d": "\\u00e9", "e": [null]}')
})

t.test('a patch with an error changes nothing', async (t) => {
  const page = await createPage(app, owner, '{"a":1,"b":{"c":1,"c":2},"d":0}')
  const test = '[{"op":"remove","path":"/d"},{"op":"test","path":"/a","value":2}]'
  const twice = '"c" occurs more than once in its object'
  const cases: [payload: string, type: string, status: number, error: string][] = [
    [test, JSON_PATCH, 409, 'Operation 2 (test "/a"): the value is different'],
    [replace('/x', '2'), JSON_PATCH, 422, 'Operation 1 (replace "/x"): there is nothing at this path'],
    [replace('/b/c', '1'), JSON_PATCH, 422, `Operation 1 (replace "/b/c"): the name ${twice}`],
    ['{"op":"add"}', JSON_PATCH, 422, 'Request body must be a JSON array'],
    ['[{"op":', JSON_PATCH, 400, 'Request body is not valid JSON (line 1, column 8)'],
    ['1', MERGE_PATCH, 422, 'Request body must be a JSON object or array'],
    ['{"a":\n01}', MERGE_PATCH, 400, 'Request body is not valid JSON (line 2, column 2)'],
    [
      `{"a":"${'x'.repeat(64 * 1024)}"}`,
      MERGE_PATCH,
      413,
      'Request body is too large (maximum is 65536 bytes)'
    ]
  ]
  for (const [payload, type, status, error] of cases) {
    const response = await patch({ id: page.id, payload, type })
    t.same([response.statusCode, response.json()], [status, { errors: [error] }], payload.slice(0, 60))
  }
  const malformed = await patch({ id: page.id, payload: '[{"op":"add","path":"a"}]' })
  t.equal(malformed.json().errors.length, 2, 'a sentence for each problem')
  t.equal(await read(page.id), '{"a":1,"b":{"c":1,"c":2},"d":0}')
})

t.test('other types are a 415 that names both kinds', async (t) => {
  const { id } = await createPage(app, owner)
  const message = 'Content-Type must be application/json-patch+json or application/merge-patch+json'
  for (const type of ['application/json', 'text/plain', 'application/xml', 'application/vnd.api+json', '']) {
    const response = await patch({ id, payload: Buffer.from('{"a":1}'), type })
    t.same([response.statusCode, response.json()], [415, { errors: [message] }], type)
    t.equal(response.headers['accept-patch'], `${JSON_PATCH}, ${MERGE_PATCH}`)
  }
  t.equal((await patch({ id, type: '' })).statusCode, 415, 'without a body')
  const capitals = { id, payload: '[]', type: 'Application/JSON-Patch+json; charset=UTF-8' }
  t.equal((await patch(capitals)).statusCode, 204)
  t.match((await patch({ id, payload: '[]', type: `${JSON_PATCH}; charset=latin1` })).json().errors, [
    'JSON must be encoded in UTF-8'
  ])
  t.same((await patch({ id, payload: '' })).json(), { errors: ['Request body must be a JSON array'] })
  const type = { 'content-type': JSON_PATCH }
  const record = await sendAs(app, owner, 'PATCH', `/manage/landing_pages/${id}`, '[]', type)
  t.same([record.statusCode, record.json().errors], [415, ['Content-Type must be application/json']])
  t.equal(record.headers['accept-patch'], 'application/json')
})

t.test('preconditions are checked before the patch is applied', async (t) => {
  const page = await createPage(app, owner, '{"a":1}')
  const failing = '[{"op":"test","path":"/a","value":2}]'
  const refused = [['if-match', '"other"'], ['if-none-match', '*'], ['if-none-match', page.etag]] as const
  for (const [name, value] of refused) {
    const response = await patch({ id: page.id, payload: failing, headers: { [name]: value } })
    t.same([response.statusCode, response.headers.etag], [412, page.etag], `${name}: ${value}`)
  }
  for (const tag of [page.etag, page.recordTag, '*']) {
    t.equal((await patch({ id: page.id, payload: failing, headers: { 'if-match': tag } })).statusCode, 409)
  }
  const write = async (value: string, tag: string) =>
    await patch({ id: page.id, payload: replace('/a', value), headers: { 'if-match': tag } })
  const first = await write('2', page.recordTag)
  t.equal(first.statusCode, 204)
  const second = await write('3', page.etag)
  t.same([second.statusCode, second.headers.etag], [412, documentTag(String(first.headers.etag))])
})

t.test('a result over the limit of documents is a 413', async (t) => {
  const small = await buildTestApp(t, { ...settings, MAX_DOCUMENT_BYTES: '10' })
  const { id } = await createPage(small, owner, '{"a":1}')
  const response = await patch({ id, payload: replace('/a', '12345'), replica: small })
  t.same([response.statusCode, response.json()], [413, {
    errors: ['Document is too large (maximum is 10 bytes)']
  }])
  t.equal((await patch({ id, payload: replace('/a', '1234'), replica: small })).statusCode, 204)
})

async function patchFromTwoReplicas (
  t: Test,
  id: string,
  payloads: readonly string[],
  type: string
): Promise<number[]> {
  const replica = await buildTestApp(t, settings)
  const responses = await Promise
    .all(payloads.map(async (payload, index) =>
      await patch({ id, payload, type, replica: index % 2 === 0 ? app : replica })
    ))
  return responses.map(({ statusCode }) => statusCode)
}

t.test('patches at once are all applied, from two replicas', async (t) => {
  const members = Array.from({ length: 50 }, (_, index) => `m${index}`)
  const page = await createPage(app, owner, `{${members.map((name) => `"${name}": 0`).join(', ')}}`)
  const payloads = members.map((name) => `{"${name}": 1}`)
  t.same(await patchFromTwoReplicas(t, page.id, payloads, MERGE_PATCH), members.map(() => 204))
  t.equal(await read(page.id), `{${members.map((name) => `"${name}": 1`).join(', ')}}`)
  const last = await read(page.id)
  await until(async () => (await app.inject(`/landing_pages/${page.public_id}`)).body === last)
})

t.test('of concurrent patches that test the same value, one is applied and the others are a 409', async (t) => {
  const { id } = await createPage(app, owner, '{"n":0}')
  const payloads = Array.from(
    { length: 10 },
    (_, index) => `[{"op":"test","path":"/n","value":0},{"op":"replace","path":"/n","value":${index + 1}}]`
  )
  const unrelated = [1, 2, 3, 4].map((n) => `[{"op":"add","path":"/m${n}","value":0}]`)
  const statuses = await patchFromTwoReplicas(t, id, [...payloads, ...unrelated], JSON_PATCH)
  t.same(statuses.slice(10), [204, 204, 204, 204], 'those that wait behind them are applied')
  t.same(statuses.slice(0, 10).sort(), [204, ...Array(9).fill(409)])
})

t.test('slow patches of forty accounts keep out no small one', async (t) => {
  const members = Array.from({ length: 500 }, (_, index) => `/m${index}`)
  const slow = JSON.stringify([
    ...members.map((path) => ({ op: 'add', path, value: 0 })),
    ...members.map((path) => ({ op: 'remove', path }))
  ])
  const accounts: { account: Account, id: string }[] = []
  while (accounts.length < 45) { // one after the other: eight hashes of an address may wait
    const account = await signUp(app)
    accounts.push({ account, id: (await createPage(app, account, '{"n":0}')).id })
  }
  // One patch each: the time that an account used counts, and on a busy machine that may be seconds.
  const calm = accounts.splice(0, 5)
  const statuses: number[] = []
  const over = new AbortController()
  const load = Promise.all(accounts.map(async ({ account, id }) => {
    while (!over.signal.aborted) {
      const { statusCode } = await patch({ id, payload: slow, account })
      statuses.push(statusCode)
      if (statusCode === 503) await sleep(20)
    }
  }))
  await until(() => statuses.includes(503), 'the queue is full')
  const small: number[] = []
  for (const one of calm) small.push((await patch({ ...one, payload: replace('/n', '1') })).statusCode)
  over.abort()
  await load
  t.same(small, Array(5).fill(204))
  t.ok(statuses.includes(204), 'the others had turns, too')
})

/** Holds the patches that begin to be applied, until `release()`. The others wait in the queue. */
function holdPatches (t: Test) {
  const counts = { queued: 0, applied: 0 }
  const { run } = KeyedSemaphore.prototype
  t.intercept(KeyedSemaphore.prototype, 'run', {
    value: async function (this: KeyedSemaphore<unknown>, ...args: Parameters<typeof run>) {
      counts.queued++
      return await run.apply(this, args)
    }
  })
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  const { apply } = Patcher.prototype
  t.intercept(Patcher.prototype, 'apply', {
    value: async function (this: Patcher, ...args: Parameters<typeof apply>) {
      counts.applied++
      await released
      return await apply.apply(this, args)
    }
  })
  const isQueued = async (count: number) =>
    await until(() => counts.queued === count && counts.applied === 1, `${count} patches have arrived`)
  return { counts, isQueued, release }
}

for (const what of ['document', 'draft']) {
  t.test(`a waiting patch of a ${what} ends with its key or session`, async (t) => {
    const account = await signUp(app)
    const page = await createPage(app, account, '{}')
    const url = `/manage/landing_pages/${page.id}/${what}`
    const key = await createKey(app, account, ['pages:read', 'pages:write'])
    const stolen = await signIn(app, account)
    const senders = what === 'document' ? [key, stolen, account] : [stolen, key, account]
    const { counts, isQueued, release } = holdPatches(t)
    const responses: Promise<{ statusCode: number }>[] = []
    for (const [index, sender] of senders.entries()) {
      const type = { 'content-type': MERGE_PATCH }
      responses.push(sendAs(app, sender, 'PATCH', url, `{"p${index}":${index}}`, type))
      await isQueued(index + 1)
    }
    t.equal((await sendAs(app, account, 'DELETE', `/api_keys/${key.id}`)).statusCode, 204)
    t.equal((await sendAs(app, account, 'DELETE', '/auth/sessions')).statusCode, 204)
    const real = clock.now
    replaceClock(t, () => real() + 1001)
    release()
    const statuses = (await Promise.all(responses)).map(({ statusCode }) => statusCode)
    t.same(statuses, [401, 401, what === 'draft' ? 201 : 204])
    t.equal((await sendAs(app, account, 'GET', url)).body, '{"p2":2}')
    t.equal(counts.applied, 2, 'a patch that waited in the queue takes no processor time')
  })
}
