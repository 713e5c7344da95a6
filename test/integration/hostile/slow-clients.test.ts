import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { buildTestApp, listen } from '../../helpers/app.ts'
import { connection, requestOf, requestWith, type Connection } from '../../helpers/raw.ts'
import { hostileService, Probe } from '../../helpers/hostile-service.ts'

// Slow clients succeed within the time limits and are disconnected after them. Tests of slow uploads:
// test/integration/assets/network.test.ts.

const patient = await hostileService(t)
const hasty = await hostileService(t, { HEADERS_TIMEOUT_MS: '500', BODY_TIMEOUT_MS: '500' })
const { account, page } = patient

/** Sends one byte at a time, each in its own packet if the kernel allows it. */
async function drip (to: Connection, bytes: Buffer, pauseMs = 0): Promise<void> {
  to.socket.setNoDelay()
  for (const byte of bytes) {
    if (to.closed) return
    to.send(Buffer.of(byte))
    await (pauseMs === 0 ? new Promise((resolve) => setImmediate(resolve)) : sleep(pauseMs))
  }
}

t.test('requests sent byte by byte get the same responses', async (t) => {
  const auth = { Authorization: account.headers.authorization }
  const json = { 'Content-Type': 'application/json' }
  const chunked = requestOf('/auth/refresh', { ...json, 'Transfer-Encoding': 'chunked' }, 'POST')
  const document = '{"current_data":{"\u00e9\u{1f600}":1e400}}'
  const slow = connection(t, patient.url)
  const cases = [
    [200, Buffer.from(requestOf(`/landing_pages/${page.public_id}`))],
    [404, Buffer.from(requestOf('/nothing'))],
    [201, requestWith(document, 'POST', '/landing_pages', { ...auth, ...json })],
    [400, requestWith('{"a":\u00e9}', 'POST', '/auth/sign_in', json)],
    [401, Buffer.from(`${chunked}1\r\n{\r\n1\r\n}\r\n0\r\n\r\n`)]
  ] as const
  for (const [status, bytes] of cases) {
    await drip(slow, bytes)
    t.equal((await slow.response()).status, status)
  }
})

t.test('headers and bodies over their time limit get 408', async (t) => {
  const { url } = hasty
  const head = Buffer.from(`GET /health/live HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(10_000)}`)
  const length = { 'Content-Type': 'application/json', 'Content-Length': '10000' }
  const body = Buffer.from(requestOf('/auth/sign_in', length, 'POST') + '{"user":'.padEnd(10_000))
  const slow = Array.from({ length: 20 }, (_, n) => {
    const each = connection(t, url)
    return { each, dripping: drip(each, n % 2 === 0 ? head : body.subarray(0, 5000), 25) }
  })
  const probe = new Probe(t, url)
  while (slow.some(({ each }) => !each.closed)) {
    await probe.expect(requestOf(`/landing_pages/${hasty.page.public_id}`), 200, 'a read meanwhile')
    await sleep(50)
    for (const { each } of slow) {
      if (each.socket.readableEnded) each.socket.destroy()
    }
  }
  for (const { each, dripping } of slow) {
    await dripping
    t.equal((await each.response()).status, 408)
  }
})

t.test('a body that pauses gets 408 early, a slow one is read', async (t) => {
  const { url } = patient
  const head = { 'Content-Type': 'application/json' }
  const silent = connection(t, url)
  silent.send(requestOf('/auth/sign_in', { ...head, 'Content-Length': '60000' }, 'POST'))
  const begun = connection(t, url)
  begun.send(requestOf('/auth/sign_in', { ...head, 'Content-Length': '60000' }, 'POST') + ' '.repeat(2000))
  const slow = connection(t, url)
  slow.send(requestOf('/auth/sign_in', { ...head, 'Transfer-Encoding': 'chunked' }, 'POST'))
  const feeding = setInterval(() => slow.send(`800\r\n${' '.repeat(2048)}\r\n`), 500)
  t.teardown(() => clearInterval(feeding))
  for (const each of [silent, begun]) t.equal((await each.response()).status, 408)
  clearInterval(feeding)
  slow.send('2\r\n{}\r\n0\r\n\r\n')
  t.equal((await slow.response()).status, 422)
})

t.test('a client that reads no responses is not read from', async (t) => {
  const greedy = connection(t, patient.url)
  greedy.socket.pause()
  const request = Buffer.from(requestOf(`/landing_pages/${page.public_id}`))
  let sent = 0
  const LIMIT = 64 * 2 ** 20
  while (sent < LIMIT && greedy.socket.writableLength < 2 ** 20) {
    greedy.send(Buffer.concat(Array.from({ length: 500 }, () => request)))
    sent += 500 * request.length
    await sleep(1)
  }
  t.ok(sent < LIMIT, `the service stopped reading after ${Math.round(sent / 1024)} KB`)
  const probe = new Probe(t, patient.url)
  for (let n = 0; n < 20; n++) await probe.expect(request, 200, 'a read during the flood')
  greedy.socket.destroy()
})

t.test('shutdown closes a connection whose client never reads', async (t) => {
  const app = await buildTestApp(t, { SHUTDOWN_TIMEOUT_MS: '500' })
  const url = await listen(app)
  const { port } = new URL(url)
  const client = connect(Number(port), '127.0.0.1').on('error', () => {}).pause()
  t.teardown(() => client.destroy())
  const [served] = await once(app.server, 'connection') as [Socket]
  // Fills the send buffers of the connection. The bytes need not be a response.
  while (served.write(Buffer.alloc(64 * 1024)));
  const asked = once(app.server, 'connect')
  client.write('CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n')
  await asked
  t.notOk(served.destroyed, 'the refusal waits to be sent')
  const incomplete = connection(t, url)
  const head = { 'Content-Type': 'application/json', 'Content-Length': '100' }
  const begun = once(app.server, 'request')
  incomplete.send(`${requestOf('/auth/sign_in', head, 'POST')}{`)
  await begun
  await app.shutDown()
  await app.close()
  t.ok(served.destroyed)
  await incomplete.rest()
})
