import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { buildTestApp, listen, testSettings } from '../../helpers/app.ts'
import { Owner } from '../../helpers/client.ts'
import { claimRedis } from '../../helpers/servers.ts'
import { startService } from '../../helpers/service.ts'

// Limits on connections and on the time that a request may take to arrive.

const REQUEST = 'GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n'

class Client {
  readonly socket: Socket
  received = ''
  closed = false

  constructor (t: Test, url: string) {
    this.socket = connect(Number(new URL(url).port), '127.0.0.1')
    this.socket.on('data', (data) => {
      this.received += data.toString('latin1')
    })
    this.socket.on('error', () => {}).on('close', () => {
      this.closed = true
    })
    t.teardown(() => this.socket.destroy())
  }

  /** Sends a request; returns whether it was answered or the connection was closed without a byte. */
  async ask (): Promise<'answered' | 'closed'> {
    const before = this.received.length
    this.socket.write(REQUEST)
    while (!this.closed && !this.received.slice(before).endsWith('}')) await sleep(5)
    if (this.received.length > before) return 'answered'
    return 'closed'
  }
}

t.test('connections beyond the limit are closed, earlier ones are served, and a closed one frees its place', async (t) => {
  const url =
    await listen(await buildTestApp(t, { settings: { ...await testSettings(t), MAX_CONNECTIONS: '3' } }))
  const clients: Client[] = []
  for (let n = 0; n < 3; n++) {
    const client = new Client(t, url)
    t.equal(await client.ask(), 'answered')
    clients.push(client)
  }
  for (let n = 0; n < 5; n++) t.equal(await new Client(t, url).ask(), 'closed')
  for (const client of clients) t.equal(await client.ask(), 'answered', 'the earlier connections are served')

  clients[0]?.socket.destroy()
  let entered: Client
  do entered = new Client(t, url)
  while (await entered.ask() === 'closed')
  t.equal(await new Client(t, url).ask(), 'closed', 'for one')
  t.equal(await entered.ask(), 'answered')
})

t.test('a limit of open files that is a little too low is not logged', async (t) => {
  const command = [
    'bash',
    '-c',
    `ulimit -n 400 && exec '${process.execPath}' dist/cli/landfall.js serve`
  ] as const
  const service = await startService(t, {
    ...await testSettings(t),
    LOG_LEVEL: 'info',
    MAX_CONNECTIONS: '160'
  }, command)
  t.notMatch(service.output(), /open files/)
})

t.test('with few file descriptors the service accepts only as many connections as it can serve', async (t) => {
  const command = [
    'bash',
    '-c',
    `ulimit -n 300 && exec '${process.execPath}' dist/cli/landfall.js serve`
  ] as const
  const service = await startService(t, { ...await testSettings(t), LOG_LEVEL: 'info' }, command)
  t.match(
    service.output(),
    /MAX_CONNECTIONS is 10000, but the limit of open files \(ulimit -n\) allows 100/
  )
  const owner = await Owner.signUp(service.url)
  const { text } = await owner.upload(service.url, Buffer.alloc(4 * 1024 * 1024), 'large.bin')
  const { pathname } = new URL(JSON.parse(text).url)
  const greedy = Array.from({ length: 400 }, () => {
    const client = new Client(t, service.url)
    client.socket.pause()
    client.socket.write(`GET ${pathname} HTTP/1.1\r\nHost: x\r\n\r\n`)
    return client
  })
  // The process reads its own memory use in this time, which needs a file descriptor, too.
  await sleep(2500)
  t.equal(service.child.exitCode, null)
  for (const { socket } of greedy) socket.destroy()
  let response
  do response = await new Client(t, service.url).ask()
  while (response === 'closed')
  t.equal((await owner.call('GET', `${service.url}/auth/me`)).status, 200)
})

t.test("workers at their limit close new connections and don't pass them to each other", async (t) => {
  const service = await startService(t, {
    ...await testSettings(t),
    REDIS_URL: await claimRedis(t),
    WEB_CONCURRENCY: '2',
    MAX_CONNECTIONS: '2'
  })
  // The connections of the readiness checks may still be open.
  let kept: Client[]
  do {
    kept = Array.from({ length: 8 }, () => new Client(t, service.url))
    await Promise.all(kept.map(async (client) => await client.ask()))
    kept = kept.filter(({ closed }) => !closed)
  } while (kept.length === 0)
  t.ok(kept.length <= 4, `two workers keep ${kept.length} of 8 connections`)
  const more = Array.from({ length: 20 }, () => new Client(t, service.url))
  const responses = await Promise.all(more.map(async (client) => await client.ask()))
  t.ok(
    responses.filter((response) => response === 'answered').length <= 4 - kept.length,
    'every other connection is closed at once'
  )
  for (const client of kept) t.equal(await client.ask(), 'answered')
})

t.test('an answered connection may stay idle for longer than HEADERS_TIMEOUT_MS', async (t) => {
  const app = await buildTestApp(t, { settings: { ...await testSettings(t), HEADERS_TIMEOUT_MS: '200' } })
  const client = new Client(t, await listen(app))
  t.equal(await client.ask(), 'answered')
  await Promise.race([once(client.socket, 'close'), sleep(1000)])
  t.equal(await client.ask(), 'answered')
  t.ok(
    app.server.keepAliveTimeout > 60_000,
    'longer than load balancers keep a connection, so that they close it first'
  )
})

t.test('the server has a limit for each kind of slow connection', async (t) => {
  const { server } = await buildTestApp(t)
  for (const limit of ['timeout', 'headersTimeout', 'requestTimeout', 'keepAliveTimeout'] as const) {
    t.ok(server[limit] > 0 && server[limit] <= 15 * 60_000, `${limit}: ${server[limit]} ms`)
  }
})
