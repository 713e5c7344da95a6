import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { clock } from '../../../src/infra/system/clock.ts'
import { replaceClock } from '../../helpers/clock.ts'
import { buildTestApp, createPage, listen, signUp, type CreatedPage } from '../../helpers/app.ts'
import { pathOf, upload } from '../../helpers/assets.ts'
import { requestOf } from '../../helpers/raw.ts'
import { until } from '../../helpers/until.ts'

// Answers that nobody reads. They are larger than what the operating system buffers for a connection.

const MEBIBYTE = 1024 * 1024
const MEMORY = 44 * MEBIBYTE
/** Two of them are more than the quarter that an address or account gets. */
const DOCUMENT = 8 * MEBIBYTE
const STALL_MS = 30_000

async function startService (t: Test, settings: Record<string, string> = {}) {
  const app = await buildTestApp(t, {
    MAX_UNREAD_BYTES: String(MEMORY),
    MAX_DOCUMENT_BYTES: String(2 * DOCUMENT),
    TRUST_PROXY: '127.0.0.1',
    DATABASE_TIMEOUT_MS: '60000', // no large document is late, however slow the machine is
    ...settings
  })
  // No connection stalls, however slow the machine is.
  const now = clock.now()
  replaceClock(t, () => now)
  const url = await listen(app)
  const account = await signUp(app)

  const requestFrom = (address: string, path: string): string =>
    requestOf(path, { 'X-Forwarded-For': address, Authorization: account.headers.authorization })

  /** Asks for something and doesn't read the response. */
  function ask (address: string, path: string): Socket {
    const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {}).pause()
    t.teardown(() => socket.destroy())
    socket.write(requestFrom(address, path))
    return socket
  }

  /** The value of a metric, with its labels. */
  async function metric (name: string): Promise<number> {
    const line = (await app.metrics.metrics()).split('\n').find((line) => line.startsWith(`${name} `))
    return Number(line?.slice(name.length))
  }
  const closed = async (reason: string) =>
    await metric(`landfall_unread_responses_closed_total{reason="${reason}"}`)
  const unsent = async () => await metric('landfall_unread_response_bytes')
  const create = async (letter: string): Promise<CreatedPage> =>
    await createPage(app, account, `["${letter.repeat(DOCUMENT)}"]`)

  return { app, ask, requestFrom, closed, unsent, create }
}

/** Reads a response to its end. Returns false if the service closes the connection before. */
async function isWhole (socket: Socket): Promise<boolean> {
  socket.resume()
  return await until(
    () => socket.bytesRead > DOCUMENT ? 'whole' : socket.closed && 'cut',
    'the response ends'
  ) ===
    'whole'
}

t.test('an account that reads no responses loses connections', async (t) => {
  const { app, ask, closed, unsent, create } = await startService(t)
  const { id, public_id: publicId } = await create('x')
  const asked: Socket[] = []
  for (let n = 0; n < 5; n++) {
    asked.push(ask(`192.0.2.${n}`, `/manage/landing_pages/${id}`))
    await until(
      async () => await unsent() >= DOCUMENT && await closed('memory') === n,
      'one response is left'
    )
  }
  t.ok(await unsent() <= MEMORY)
  const responses = await Promise.all(asked.map(isWhole))
  t.equal(responses.filter(Boolean).length, 1, 'the response that is left is sent')
  t.equal((await app.inject(`/landing_pages/${publicId}`)).statusCode, 200)
})

t.test('an address loses connections whose documents left the cache', async (t) => {
  const { app, ask, closed, unsent, create } = await startService(t, { CACHE_MAX_BYTES: String(MEBIBYTE) })
  const pages = [await create('a'), await create('b'), await create('c')]
  const asked = pages.map(({ public_id: id }) => ask('192.0.2.1', `/landing_pages/${id}`))
  const other = ask('192.0.2.2', `/landing_pages/${pages[0]?.public_id}`)
  await until(async () => await closed('memory') === 2, 'connections are closed')
  t.ok(await unsent() <= MEMORY)
  const responses = await Promise.all(asked.map(isWhole))
  t.equal(responses.filter(Boolean).length, 1)
  t.ok(await isWhole(other))
  await createPage(app, await signUp(app), '{}')
})

t.test('all unread responses together stay within the memory', async (t) => {
  const { ask, unsent, closed, create } = await startService(t, { CACHE_MAX_BYTES: '0' })
  const count = 7
  const pages = []
  for (let n = 0; n < count; n++) pages.push(await create(String(n)))
  for (const [n, { public_id: id }] of pages.entries()) ask(`192.0.2.${n}`, `/landing_pages/${id}`)
  const room = Math.floor(MEMORY / DOCUMENT)
  await until(async () => await closed('memory') >= count - room, 'connections are closed')
  t.equal(await closed('memory'), count - room)
  t.ok(await unsent() <= MEMORY)
})

t.test('pipelined reads that wait behind an unread response are counted', async (t) => {
  const { app, ask, requestFrom, closed, create } = await startService(t, {
    MAX_UNREAD_BYTES: String(MEBIBYTE),
    RATE_LIMIT_PUBLIC: '1000000'
  })
  const path = `/landing_pages/${(await create('x')).public_id}`
  await app.inject(path)
  const greedy = [ask('192.0.2.1', path), ask('192.0.2.1', path)]
  const other = ask('192.0.2.2', path)
  other.write(requestFrom('192.0.2.2', '/landing_pages/unknown').repeat(10))
  for (const socket of greedy) socket.write(requestFrom('192.0.2.1', '/landing_pages/unknown').repeat(100))
  await until(async () => await closed('memory') === 1, 'one connection of the address is closed')
  t.same((await Promise.all(greedy.map(isWhole))).sort(), [false, true])
  t.ok(await isWhole(other))
})

t.test('many slow readers of one cached document stay connected', async (t) => {
  const { app, ask, closed, unsent, create } = await startService(t)
  const { public_id: id } = await create('x')
  const asked = Array.from({ length: 10 }, () => ask('192.0.2.1', `/landing_pages/${id}`))
  const file = Buffer.alloc(20 * MEBIBYTE)
  const download = ask('192.0.2.1', pathOf((await upload(app, await signUp(app), file)).json()))
  await until(async () => await unsent() > 0, 'the download waits for its reader')
  for (const each of asked) t.ok(await isWhole(each))
  t.ok(await isWhole(download))
  t.equal(await closed('memory'), 0)
})

t.test('a connection is closed when it takes nothing for 30 s', async (t) => {
  const { app, ask, closed, unsent, create } = await startService(t, { MAX_UNREAD_BYTES: `${4 * MEMORY}` })
  const { id } = await create('x')
  let now = clock.now()
  replaceClock(t, () => now)
  const path = `/manage/landing_pages/${id}`
  const slow = ask('192.0.2.1', path)
  await until(async () => await unsent() > 0, 'the slow reader has a response')
  const before = await unsent()
  const other = await createPage(app, await signUp(app), '{}')
  const stalled = ask('192.0.2.2', path)
  const gone = once(stalled, 'close')
  await until(async () => await unsent() > before || await closed('memory') > 0, 'both have a response')
  t.equal(await closed('memory'), 0)
  for (let step = 0; step < 2; step++) {
    now += STALL_MS * 0.6
    // The peer's window opens only after a good part of what it buffers is read.
    for (let read = 0; read < 3 * MEBIBYTE;) read += (await once(slow.resume(), 'data'))[0].length
    slow.pause()
    app.unreadResponses.sweep()
  }
  t.equal(await closed('stalled'), 1)
  stalled.resume()
  await gone
  t.ok(await isWhole(slow))
  t.equal((await app.inject(`/landing_pages/${other.public_id}`)).statusCode, 200)
})
