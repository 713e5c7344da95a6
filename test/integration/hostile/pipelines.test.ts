import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { readdirSync, readlinkSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { pathOf, upload } from '../../helpers/assets.ts'
import { until } from '../../helpers/until.ts'
import { buildTestApp, createPage, listen, signUp, testSettings } from '../../helpers/app.ts'
import { connection, requestOf, requestWith, type Connection } from '../../helpers/raw.ts'
import { openTransaction, untilBlocked } from '../../helpers/transaction.ts'

// Pipelined requests, sent before earlier ones on the connection are answered: docs/adr/0007-pipelining.md

async function service (t: Test) {
  const settings = await testSettings(t)
  const app = await buildTestApp(t, { ...settings, RATE_LIMIT_PUBLIC: '1000000' })
  const url = await listen(app)
  const account = await signUp(app)
  const auth = { Authorization: account.headers.authorization }
  const get = (path: string): string => requestOf(path, auth)
  const open = (): Connection => connection(t, url)
  /** A page whose document is cached, and a function that makes a request that writes it. */
  const cachedPage = async (document?: string) => {
    const page = await createPage(app, account, document)
    const path = `/landing_pages/${page.public_id}`
    await app.inject(path)
    const url = `/manage/landing_pages/${page.id}`
    const type = { 'Content-Type': 'application/json' }
    const patch = (n: number | string): string =>
      requestWith(`{"current_data":[${n}]}`, 'PATCH', url, { ...auth, ...type }).toString()
    return { page, path, patch }
  }
  const database = settings.DATABASE_URL as string
  return { app, url, account, auth, get, open, cachedPage, database }
}

t.test('a pipeline behind a management request is closed after its response', async (t) => {
  const { app, get, open, cachedPage } = await service(t)
  const { path, patch } = await cachedPage()
  const write = patch('"never"')
  const preflight = get(path).replace('GET', 'OPTIONS')
  const expecting = get('/auth/me').replace('\r\n\r\n', '\r\nExpect: nonsense\r\n\r\n')
  for (const [first, firstBody] of [[get('/auth/me'), /^\{"user"/], [patch(1), /\[1\]/]] as const) {
    for (
      const behind of [write, get('/auth/me'), get(path), preflight, get('/nowhere'), get('/%zz'), expecting]
    ) {
      for (const inOnePacket of [true, false]) {
        const what = `${first.slice(0, 10)}, then ${behind.slice(0, 30)}`
        const connection = open()
        if (inOnePacket) connection.send(first + behind + write)
        else {
          connection.send(first)
          await new Promise((resolve) => setImmediate(resolve))
          connection.send(behind)
          connection.send(write)
        }
        const response = await connection.response()
        t.equal(response.status, 200, what)
        t.match(response.body.toString(), firstBody, what)
        if (inOnePacket) {
          t.match(response.head, /\r\nconnection: close\r\n/i, what)
          t.equal(await connection.rest(), '', what)
        } else connection.socket.destroy()
      }
    }
  }
  t.equal((await app.inject(path)).body, '[1]', 'no write after the first request was carried out')
})

t.test('a write behind public reads is answered or not made', async (t) => {
  const { app, get, open, cachedPage } = await service(t)
  const { path, patch } = await cachedPage()
  for (const isCached of [false, true]) {
    const connection = open()
    connection.send(get(path) + patch(1) + get(path) + patch(2))
    t.equal((await connection.response()).status, 200)
    const answered = (await connection.rest()).match(/HTTP\/1\.1 200 OK/g)?.length ?? 0
    t.equal(
      (await app.inject(path)).body,
      answered === 0 ? '{"hello":"world"}' : '[1]',
      `cached: ${isCached}`
    )
    t.ok(answered <= 1, 'a write that waited for a public read is the last request')
  }
})

t.test('a public read that waits in a pipeline gets no 100 Continue', async (t) => {
  const { get, open, cachedPage } = await service(t)
  const { path } = await cachedPage()
  const connection = open()
  const expecting = get(path).replace('\r\n\r\n', '\r\nExpect: 100-continue\r\n\r\n')
  connection.send(get(path) + expecting + expecting)
  for (let n = 0; n < 3; n++) t.equal((await connection.response()).body.toString(), '{"hello":"world"}')
  connection.send(expecting)
  t.equal((await connection.response()).status, 100)
  t.equal((await connection.response()).status, 200)
})

t.test('unread pipelined downloads keep one file open', async (t) => {
  const { app, url, account, get } = await service(t)
  // More than the buffers of a connection can take.
  const path = pathOf((await upload(app, account, Buffer.alloc(20 * 1024 * 1024))).json())
  const isOpen = (fd: string): boolean => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).endsWith(path.slice(path.lastIndexOf('/')))
    } catch {
      return false // closed meanwhile
    }
  }
  const open = (): number => readdirSync('/proc/self/fd').filter(isOpen).length
  for (let n = 0; n < 5; n++) {
    const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {}).pause()
    const [served] = await once(app.server, 'connection') as [Socket]
    const closed = new Promise((resolve) => served.once('close', resolve))
    socket.write(get(path).repeat(30))
    await until(() => served.writableLength > 0, 'the first file is being sent')
    t.equal(open(), 1)
    socket.destroy()
    await closed
  }
  await until(() => open() === 0, 'the files are closed')
})

t.test('a pipeline of management requests queries the database only once', async (t) => {
  const { app, account, get, open, database } = await service(t)
  await createPage(app, account)
  const stranger = await signUp(app) // the lists of one account are read one by one
  const locker = await openTransaction(t, database)
  await locker.client.query('LOCK TABLE landing_pages')
  const greedy = open()
  const other = open()
  greedy.send(get('/manage/landing_pages').repeat(20))
  await untilBlocked(database, 1)
  other
    .send(get('/manage/landing_pages').replace(account.headers.authorization, stranger.headers.authorization))
  t.equal(await untilBlocked(database, 2), 2, 'one query per connection')
  await locker.client.query('ROLLBACK')
  t.equal((await other.response()).status, 200)
  t.equal((await greedy.response()).status, 200)
  t.equal(await greedy.rest(), '')
})

t.test('of a pipelined flood only the first request is read', async (t) => {
  const { app, get, open } = await service(t)
  const flood = open()
  const [flooded] = await once(app.server, 'connection') as [Socket]
  const requests = get('/manage/landing_pages').repeat(20_000)
  flood.send(requests)
  t.equal((await flood.response()).status, 200)
  await until(() => flood.closed, 'the connection is closed')
  t.ok(flooded.bytesRead < requests.length / 2, `${flooded.bytesRead} of ${requests.length} bytes were read`)
  t.equal((await app.inject('/health/live')).statusCode, 200)
})

t.test('dropped requests release their headers', async (t) => {
  const { app, account, get, open } = await service(t)
  const path = pathOf((await upload(app, account, Buffer.alloc(16 * 1024 * 1024))).json())
  const greedy = open()
  const requests: IncomingMessage[] = []
  app.server.prependListener('request', (request) => requests.push(request))
  greedy.socket.pause()
  const large = get('/auth/me').replace('\r\n\r\n', `\r\n${'ab:cd\r\n'.repeat(2000)}\r\n`)
  greedy.send(get(path) + large.repeat(20))
  await until(() => requests.length === 21, 'all requests have arrived')
  const kept = requests.filter(({ rawHeaders }) => rawHeaders.length > 0)
  t.equal(kept.length, 1, 'only the first request keeps its headers')
})

t.test('an unanswerable request cuts off no earlier response', async (t) => {
  const { app, account, get, open } = await service(t)
  const file = Buffer.alloc(8 * 1024 * 1024, 'x')
  const path = pathOf((await upload(app, account, file)).json())
  const cases = [
    'CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n',
    '\0\0\r\n\r\n',
    `${get(path)}CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n`
  ]
  for (const unanswered of cases) {
    const connection = open()
    connection.send(get(path))
    connection.socket.pause()
    await new Promise((resolve) => setImmediate(resolve))
    connection.send(unanswered)
    connection.socket.resume()
    t.equal((await connection.response()).body.length, file.length, JSON.stringify(unanswered))
    t.equal(await connection.rest(), '')
  }
})

t.test('a CONNECT or an upgrade with bytes is the last request', async (t) => {
  const { app, get, open, cachedPage } = await service(t)
  const { path, patch } = await cachedPage()
  const connect = 'CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\nX-Request-Id: connect\r\n\r\n'
  const upgraded = (path: string): string =>
    get(path).replace('\r\n\r\n', '\r\nConnection: Upgrade\r\nUpgrade: z\r\n\r\n')
  const upgrade = upgraded('/health/live')
  const isOver = async (connection: Connection, status: number, what: string): Promise<void> => {
    const response = await connection.response()
    t.equal(response.status, status, what)
    t.match(response.head, /\r\nconnection: close\r\n/i, what)
    t.equal(await connection.rest(), '', what)
  }

  const written = open()
  written.send(patch(1) + connect)
  await isOver(written, 200, 'a write before a CONNECT')
  t.equal((await app.inject(path)).body, '[1]')

  const refused = patch(2)
  const hidden = `POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: ${refused.length}\r\n\r\n`
  const anonymous = upgraded('/auth/me').replace(/Authorization.*\r\n/, '')
  const length = 65_536 - upgrade.length
  const large = `${upgrade}${hidden.replace(String(refused.length), String(length))}`.padEnd(65_536, 'x')
  const cases = [
    ['a write after an upgrade', 200, upgrade + refused],
    ['a write after a refused upgrade', 401, anonymous + refused],
    ['a write after an upgrade of a public read', 200, upgraded(path) + refused],
    ['a body after an upgrade that looks like a write', 200, upgrade + hidden, refused],
    ['a write after an upgrade and a body of 64 KiB', 200, large + refused]
  ] as const
  for (const [what, status, ...packets] of cases) {
    const connection = open()
    for (const packet of packets) {
      connection.send(packet)
      await new Promise((resolve) => setImmediate(resolve))
    }
    await isOver(connection, status, what)
  }
  t.equal((await app.inject(path)).body, '[1]', 'nothing was written')
})

t.test('a connection stays open after offers to upgrade that no bytes follow', async (t) => {
  const { app, get, open, cachedPage } = await service(t)
  const { path, patch } = await cachedPage()
  const fields = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA'
  const offer = (path: string): string => get(path).replace('\r\n\r\n', `\r\n${fields}\r\n\r\n`)
  const connection = open()
  for (const target of [path, path, '/auth/me', '/auth/me', '/nothing', path]) {
    connection.send(offer(target))
    const { status, head } = await connection.response()
    t.equal(status, target === '/nothing' ? 404 : 200)
    t.notMatch(head, /\r\nconnection: close/i)
  }
  connection.send(patch(1))
  t.equal((await connection.response()).status, 200)

  const served = once(app.server, 'connection') as Promise<[Socket]>
  const split = open()
  const [socket] = await served
  const first = offer(path).slice(0, -1)
  split.send(first)
  await until(() => socket.bytesRead === first.length, 'all but the last byte has arrived')
  split.send(`\n${get('/auth/me')}`)
  t.match(
    (await split.response()).head,
    /\r\nconnection: close\r\n/i,
    'a request follows in the second packet'
  )
  t.equal(await split.rest(), '')
})

t.test('a message of HTTP/1.0 with Transfer-Encoding closes the connection', async (t) => {
  const { open } = await service(t)
  const connection = open()
  connection
    .send('POST /auth/sign_in HTTP/1.0\r\nConnection: keep-alive\r\nContent-Type: application/json\r\n' +
      'Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n')
  const { status, head } = await connection.response()
  t.equal(status, 422)
  t.match(head, /\r\nconnection: close\r\n/i)
  t.equal(await connection.rest(), '')
})

t.test('requests after a response that closes the connection are not served', async (t) => {
  const { app, get, open, cachedPage } = await service(t)
  const { page, path } = await cachedPage()
  // Without a token, the request is refused before its body is read.
  const refused = (bytes: number): string =>
    'DELETE /auth/sign_out HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n' +
    `Content-Length: ${bytes}\r\n\r\n${' '.repeat(bytes)}`
  const write = get(`/manage/landing_pages/${page.id}`).replace('GET', 'DELETE')
  const unexpected = get('/auth/me').replace('\r\n\r\n', '\r\nExpect: 200-ok\r\n\r\n')
  const behind = {
    'a read': get(path),
    'a refusal and a read': refused(2) + get(path),
    'a write': write,
    'a refusal and a write': refused(2) + write,
    'reads and an expectation': get(path) + get('/auth/me') + unexpected,
    'a refusal and an expectation': refused(2) + unexpected
  }
  for (const bytes of [2, 1000, 50_000, 200_000]) {
    for (const [name, requests] of Object.entries(behind)) {
      const connection = open()
      connection.send(refused(bytes) + requests)
      const response = await connection.response()
      t.equal(response.status, 401, `a body of ${bytes} bytes, then ${name}`)
      t.match(response.head, /\r\nconnection: close\r\n/i)
      t.equal(await connection.rest(), '')
    }
  }
  t.equal((await app.inject(path)).statusCode, 200, 'nothing was written')
})
