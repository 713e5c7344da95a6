import { once } from 'node:events'
import type { Socket } from 'node:net'
import { Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import type { FastifyInstance } from 'fastify'
import { clock } from '../../../src/infra/system/clock.ts'
import { replaceClock } from '../../helpers/clock.ts'
import { windowKey } from '../../../src/modules/rate-limit/index.ts'
import { Body } from '../../../src/modules/landing-pages/public/prepared-head.ts'
import { buildTestApp, createPage, listen, signUp } from '../../helpers/app.ts'
import { connection as connectionTo, requestOf, type Connection,
  type RawResponse as Response } from '../../helpers/raw.ts'
import { startRedisServer } from '../../helpers/servers.ts'
import { countStatements } from '../../helpers/statements.ts'

// Warm public reads are answered synchronously and bypass Fastify and Node, but must send the same bytes.

const UNKNOWN = 'A'.repeat(22)
const KILOBYTE = 1024

/** Returns a document of `bytes` bytes that has letters beyond ASCII and compresses well. */
function documentOf (bytes: number): string {
  let text = '{"text":"\u00e9\u4e16\u{1f600}'
  let size = Buffer.byteLength(text)
  for (let n = 0; size < bytes - 20; n++) {
    const word = `${n % 97} \u00fc `
    text += word
    size += Buffer.byteLength(word)
  }
  return `${text}${'x'.repeat(bytes - size - 2)}"}`
}

async function open (t: Test, app: FastifyInstance): Promise<{ url: string, connection: Connection }> {
  const url = await listen(app)
  return { url, connection: connectionTo(t, url) }
}

t.test('no hook runs for a public read, not even one that a plugin adds later', async (t) => {
  const app = await buildTestApp(t)
  const routes = app.printRoutes({ includeHooks: true, commonPrefix: false }).split('\n')
  const at = routes.findIndex((line) => line.includes('/:public_id'))
  t.match(routes[at], /\/:public_id \(GET/)
  // The preflight has the same URL and hooks of its own.
  const next = routes.findIndex((line, index) => index > at && /\(OPTIONS\)|[├└]── /.test(line))
  // Fastify adds this hook to every HEAD route. It doesn't run for a hijacked reply.
  t.same(
    routes.slice(at + 1, next).filter((line) => line.includes('•')).map((line) => line.replace(/^.*• /, '')),
    ['(onSend) ["headRouteOnSendHandler()"]']
  )
  t.ok(routes.slice(next).some((line) => line.includes('• (onRequest)')), 'other routes have hooks')
})

t.test('warm reads and refusals use neither Redis nor PostgreSQL, except for a few leases', async (t) => {
  const { settings, during } = await countStatements(t)
  const redis = await startRedisServer(t)
  const app = await buildTestApp(t, { ...settings, REDIS_URL: redis.url, RATE_LIMIT_PUBLIC: '4000' })
  const page = await createPage(app, await signUp(app), documentOf(2 * KILOBYTE))
  const { connection } = await open(t, app)
  const look = new Redis(redis.url)
  t.teardown(() => look.disconnect())
  /** The number of commands in Redis by name, including those of scripts. */
  const commands = async (): Promise<Record<string, number>> => {
    const lines = (await look.info('commandstats')).matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)
    return Object.fromEntries([...lines].map(([, name, calls]) => [name, Number(calls)]))
  }
  const read = async (headers: Record<string, string> = {}, id = page.public_id) =>
    (await connection.ask(`/landing_pages/${id}`, headers)).status
  // The heartbeats of the connection and of the process, and what this test sends.
  const HEARTBEAT = ['ping', 'set', 'hset', 'hgetall', 'pexpire', 'info', 'config', 'config|resetstat']
  const of = (counted: Record<string, number>) =>
    Object.keys(counted).filter((name) => !HEARTBEAT.includes(name))

  await read({}, UNKNOWN)
  while (await app.redisClient!.commands.exists(windowKey('public 127.0.0.1')) === 0) await read()
  await look.config('RESETSTAT')
  const statements = await during(async () => {
    for (let n = 0; n < 500; n++) {
      t.equal(await read(n % 2 === 0 ? {} : { 'if-none-match': page.etag }), n % 2 === 0 ? 200 : 304)
    }
  })
  t.same(statements, [])
  const counted = await commands()
  const asked = counted.evalsha ?? 0
  t.ok(asked >= 1 && asked <= 8, `${asked} leases`)
  t.same(of(counted).filter((name) => !['evalsha', 'time', 'hmget'].includes(name)), [], 'no other commands')
  t.equal(counted.hmget, asked, 'one window per lease')

  while (await read() !== 429);
  await look.config('RESETSTAT')
  const refused = await during(async () => {
    for (let n = 0; n < 200; n++) t.equal(await read({}, n % 3 === 0 ? UNKNOWN : page.public_id), 429)
  })
  t.same(refused, [])
  // Also for a document that is not cached.
  t.same(await during(async () => t.equal(await read({}, 'B'.repeat(22)), 429)), [])
  t.same(of(await commands()), [])
})

t.test('a response that bypasses Node is what Node would send, byte for byte', async (t) => {
  const app = await buildTestApp(t, { RATE_LIMIT_PUBLIC: '2', TRUST_PROXY: '127.0.0.1' })
  const owner = await signUp(app)
  const { url, connection } = await open(t, app)
  const sizes = [200, 2 * KILOBYTE, 30 * KILOBYTE, 127 * KILOBYTE, 127 * KILOBYTE + 1]
  const documents = sizes.map(documentOf)
  const pages = []
  for (const document of documents) pages.push(await createPage(app, owner, document))
  // Not before: the Date of responses stands still with the clock, and would be earlier than Last-Modified.
  const now = clock.now()
  replaceClock(t, () => now)

  let clients = 0
  const newClient = () => `10.1.${++clients >> 8}.${clients & 255}`
  /** Sends the same read as a new client, on a connection that stays open and on one that closes. */
  async function both (
    path: string,
    headers: Record<string, string>,
    method: string,
    spent: number
  ): Promise<[kept: Response, closed: Response]> {
    const responses: Response[] = []
    for (const closing of [false, true]) {
      const own = { 'X-Request-Id': 'mine', 'X-Forwarded-For': newClient(), ...headers }
      for (let n = 0; n < spent; n++) await connection.ask(path, own, method)
      if (closing) {
        const other = connectionTo(t, url)
        responses.push(await other.ask(path, { ...own, Connection: 'close' }, method))
        t.equal(await other.rest(), '', `nothing follows a ${method}`)
      } else {
        responses.push(await connection.ask(path, own, method))
      }
    }
    return responses as [Response, Response]
  }
  const withoutConnection = ({ head }: Response) =>
    head.replace(/\r\nlast-modified: [^\r]+/, '').replace(/\r\nDate: [^\r]+/, '\r\nDate: then')
      .replace(/\r\nConnection: .*\r\n\r\n/s, '\r\n\r\n')
  const connectionLines = ({ head }: Response) => /\r\n(Connection: .*)\r\n\r\n$/s.exec(head)?.[1]
  const usual = connectionLines(await connection.ask('/health/live'))
  t.match(usual, /^Connection: keep-alive\r\nKeep-Alive: timeout=\d+$/)
  function same (t: Test, [kept, closed]: [Response, Response], status: number, what: string) {
    t.equal(kept.status, status, what)
    t.equal(withoutConnection(kept), withoutConnection(closed), what)
    t.ok(kept.body.equals(closed.body), `${what}: the body`)
    t.equal(connectionLines(kept), usual, what)
    t.equal(connectionLines(closed), 'Connection: close', what)
    t.match(kept.head, /\r\nDate: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT\r\n/, what)
  }

  for (const [index, size] of sizes.entries()) {
    const document = documents[index] as string
    const path = `/landing_pages/${pages[index]?.public_id}`
    t.equal(Buffer.byteLength(document), size)
    for (const encoding of ['identity', 'br', 'gzip']) {
      const decode = encoding === 'br' ? brotliDecompressSync : gunzipSync
      const what = `${size} bytes, ${encoding}`
      const asking = { 'Accept-Encoding': encoding }
      const isCompressed = encoding !== 'identity' && size >= KILOBYTE
      await connection.ask(path, { ...asking, 'X-Forwarded-For': newClient() })
      const whole = await both(path, asking, 'GET', 0)
      same(t, whole, 200, what)
      for (const { head, body } of whole) {
        t.equal((isCompressed ? decode(body) : body).toString(), document, what)
        t.equal(/content-encoding: (.*)\r\n/.exec(head)?.[1], isCompressed ? encoding : undefined, what)
      }
      const tag = /\r\netag: (.*)\r\n/.exec(whole[0].head)?.[1] ?? ''
      const head = await both(path, asking, 'HEAD', 0)
      same(t, head, 200, `${what}, HEAD`)
      t.equal(withoutConnection(head[0]), withoutConnection(whole[0]), 'HEAD has the headers of GET')
      for (const method of ['GET', 'HEAD']) {
        const known = await both(path, { ...asking, 'If-None-Match': tag }, method, 0)
        same(t, known, 304, `${what}, ${method} with If-None-Match`)
        same(t, await both(path, asking, method, 2), 429, `${what}, ${method} refused`)
      }
    }
  }
  await connection.ask(`/landing_pages/${UNKNOWN}`, { 'X-Forwarded-For': newClient() })
  for (const id of [UNKNOWN, 'malformed']) {
    for (const method of ['GET', 'HEAD']) {
      same(t, await both(`/landing_pages/${id}`, {}, method, 0), 404, `${method} ${id}`)
    }
  }
})

t.test('pipelined requests and HTTP/1.0 clients get complete responses in order', async (t) => {
  const app = await buildTestApp(t, { RATE_LIMIT_PUBLIC: '4000' })
  const owner = await signUp(app)
  const documents = [2, 30, 12].map((size) => documentOf(size * KILOBYTE))
  const pages = []
  for (const document of documents) pages.push(await createPage(app, owner, document))
  const { url, connection } = await open(t, app)
  const paths = [...pages, ...pages].map(({ public_id: id }) => `/landing_pages/${id}`)
  const all = [...paths, ...paths]
  connection.socket.write(all.map((path, n) => requestOf(path, { 'x-request-id': `read-${n}` })).join(''))
  for (const n of all.keys()) {
    const { head, body } = await connection.response('GET')
    t.match(head, `x-request-id: read-${n}\r\n`)
    t.equal(body.toString(), documents[n % documents.length])
  }

  const kept = connectionTo(t, url)
  for (const document of [documents[0], documents[0]]) {
    const answer = await kept.ask(paths[0] as string, { Connection: 'keep-alive' }, 'GET', '1.0')
    t.match(answer.head, /\r\nConnection: keep-alive\r\n/)
    t.equal(answer.body.toString(), document)
  }
  const old = connectionTo(t, url)
  const answer = await old.ask(paths[0] as string, {}, 'GET', '1.0')
  t.match(answer.head, /\r\nConnection: close\r\n/)
  t.equal(answer.body.toString(), documents[0])
  t.equal(await old.rest(), '')
})

t.test('a read that arrives while the service closes is answered with Connection: close', async (t) => {
  const app = await buildTestApp(t)
  const page = await createPage(app, await signUp(app), documentOf(2 * KILOBYTE))
  const { connection } = await open(t, app)
  const [peer] = await once(app.server, 'connection') as [Socket]
  await connection.ask(`/landing_pages/${page.public_id}`)
  const request = requestOf(`/landing_pages/${page.public_id}`)
  const { bytesRead } = peer
  connection.socket.write(request.slice(0, -2))
  while (peer.bytesRead === bytesRead) await sleep(5)
  const closing = app.close()
  while (app.server.listening) await sleep(5)
  connection.socket.write(request.slice(-2))
  const answer = await connection.response('GET')
  t.equal(answer.status, 200)
  t.match(answer.head, /\r\nConnection: close\r\n/)
  await closing
})

t.test('Date is the second in which the response is sent', async (t) => {
  const app = await buildTestApp(t)
  const page = await createPage(app, await signUp(app))
  const { connection } = await open(t, app)
  for (let n = 0; n < 2; n++) {
    const before = Date.now()
    const { head } = await connection.ask(`/landing_pages/${page.public_id}`)
    const date = Date.parse(/\r\nDate: (.*)\r\n/.exec(head)?.[1] ?? '')
    // Date has whole seconds, and its clock is read slightly before.
    t.ok(date > before - 1050 && date <= Date.now(), `${new Date(date).toISOString()} at ${before}`)
    await sleep(1100)
  }
})

t.test('the head before a body is not overwritten until it has been sent', async (t) => {
  const chunks: string[] = []
  /** Returns a stand-in for a socket whose writes finish when send() is called. */
  function slowSocket (): { socket: Socket, send: () => void } {
    let send = () => {}
    const socket = new Writable({
      write (chunk: Buffer, _encoding, done) {
        send = () => {
          chunks.push(chunk.toString())
          done()
        }
      }
    })
    return { socket: socket as Socket, send: () => send() }
  }
  const body = new Body(Buffer.from('body'))
  const [first, second, third] = [slowSocket(), slowSocket(), slowSocket()]
  t.equal(body.writeTo(first.socket, 'first '), true)
  t.equal(body.writeTo(second.socket, 'second '), false, 'the first write is not finished')
  first.send()
  t.equal(body.writeTo(second.socket, 'second '), true)
  t.equal(body.writeTo(third.socket, 'third '), false)
  second.socket.destroy()
  t.equal(body.writeTo(third.socket, 'third '), true, 'a closed socket no longer blocks the body')
  third.send()
  t.same(chunks, ['first body', 'third body'])
  t.equal(body.writeTo(slowSocket().socket, 'x'.repeat(5000)), false, 'the head is too long')
})
