import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import pg from 'pg'
import { pathOf, upload } from '../assets/helpers.ts'
import { until } from '../helpers/until.ts'
import { buildTestApp, createPage, listen, signUp, testSettings } from '../helpers/app.ts'
import { Connection } from '../helpers/raw.ts'
import { query } from '../helpers/servers.ts'

// Many requests on one connection before the first is answered: in 64 KB there are a thousand of them.

async function service (t: Test) {
  const settings = await testSettings(t)
  const app = await buildTestApp(t, { settings: { ...settings, RATE_LIMIT_PUBLIC: '1000000' } })
  const url = await listen(app)
  const account = await signUp(app)
  const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${account.headers.authorization}\r\n\r\n`
  return { app, url, account, get, database: settings.DATABASE_URL as string }
}

t.test('are answered in order, whatever they are', async (t) => {
  const { app, url, account, get } = await service(t)
  const page = await createPage(app, account)
  const path = pathOf((await upload(app, account, 'the file')).json())
  const connection = new Connection(url)
  t.teardown(() => connection.socket.destroy())
  const round = [`/landing_pages/${page.public_id}`, '/auth/me', path, `/manage/landing_pages/${page.id}`, '/nowhere', path]
  const bodies = [/^\{"hello":"world"\}$/, /^\{"user":\{"id"/, /^the file$/, /"current_data":\{"hello":"world"\}/, /^\{"errors":\["Not found"\]\}$/, /^the file$/]
  const body = '{"current_data":{"hello":"world"}}'
  const patch = `PATCH /manage/landing_pages/${page.id} HTTP/1.1\r\nHost: x\r\nAuthorization: ${account.headers.authorization}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  connection.send(Array(3).fill(round.map(get).join('') + patch).join(''))
  for (let n = 0; n < 3; n++) {
    for (const expected of bodies) t.match((await connection.answer()).body.toString(), expected)
    t.match((await connection.answer()).head, /^HTTP\/1\.1 200/)
  }
  connection.send(get('/auth/me'))
  t.equal((await connection.answer()).status, 200, 'and the connection goes on')
})

t.test('are told to continue in their turn, or not when their answer is there', async (t) => {
  const { app, url, account, get } = await service(t)
  const page = await createPage(app, account)
  const path = pathOf((await upload(app, account, 'the file')).json())
  await app.inject(`/landing_pages/${page.public_id}`) // what is known is answered at once
  const connection = new Connection(url)
  t.teardown(() => connection.socket.destroy())
  const expecting = (path: string): string => get(path).replace('\r\n\r\n', '\r\nExpect: 100-continue\r\n\r\n')
  connection.send(get('/auth/me') + [`/landing_pages/${page.public_id}`, path, '/auth/me', `/landing_pages/${page.public_id}`].map(expecting).join(''))
  for (const [status, body] of [[200, '{"user"'], [200, '{"hello"'], [100, ''], [200, 'the file'], [100, ''], [200, '{"user"'], [200, '{"hello"']] as const) {
    const answer = await connection.answer()
    t.equal(answer.status, status)
    t.ok(answer.body.toString().startsWith(body), body)
  }
})

t.test('of files that nobody reads leave no file open when the connection ends', async (t) => {
  const { app, url, account, get } = await service(t)
  const path = pathOf((await upload(app, account, Buffer.alloc(4 * 1024 * 1024))).json())
  const open = (): number => readdirSync('/proc/self/fd').length
  const before = open()
  for (let n = 0; n < 5; n++) {
    const socket = connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {}).pause()
    const [served] = await once(app.server, 'connection') as [Socket]
    const closed = new Promise((resolve) => served.once('close', resolve))
    socket.write(get(path).repeat(30))
    await until(() => served.writableLength > 0, 'the first file is being sent')
    t.equal(open(), before + 3, 'both ends of the connection and one file')
    socket.destroy()
    await closed
  }
  await until(() => open() <= before, 'all are closed')
})

t.test('ask the database one after the other, so that others come in between', async (t) => {
  const { app, url, account, get, database } = await service(t)
  await createPage(app, account)
  const locker = new pg.Client({ connectionString: database })
  await locker.connect()
  await locker.query('BEGIN; LOCK TABLE landing_pages IN ACCESS EXCLUSIVE MODE')
  const waiting = async (): Promise<number> => Number((await query(database, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"))[0]?.count)
  const greedy = new Connection(url)
  const other = new Connection(url)
  t.teardown(() => { for (const { socket } of [greedy, other]) socket.destroy() })
  greedy.send(get('/manage/landing_pages').repeat(20))
  while (await waiting() < 1);
  other.send(get('/manage/landing_pages'))
  while (await waiting() < 2);
  t.equal(await waiting(), 2, 'one of each')
  await locker.query('ROLLBACK')
  await locker.end()
  t.equal((await other.answer()).status, 200)
  for (let n = 0; n < 20; n++) t.equal((await greedy.answer()).status, 200)
})

t.test('too many of them end the connection, after the answers that were under way', async (t) => {
  const { app, url, account, get } = await service(t)
  await createPage(app, account)
  const greedy = new Connection(url)
  greedy.send(get('/manage/landing_pages').repeat(1000))
  await until(() => greedy.closed, 'the connection is closed')
  t.equal((await app.inject('/health/live')).statusCode, 200)
})

t.test('wait in less memory than a hundred heads may take', async (t) => {
  const { url, get } = await service(t)
  const withHeaders = (count: number): string => get('/auth/me').replace('\r\n\r\n', `\r\n${'ab:cd\r\n'.repeat(count)}\r\n`)
  const browser = new Connection(url)
  browser.send(withHeaders(30).repeat(90))
  for (let n = 0; n < 90; n++) t.equal((await browser.answer()).status, 200)
  browser.socket.destroy()
  const greedy = new Connection(url)
  greedy.send(withHeaders(2000).repeat(20))
  await until(() => greedy.closed, 'the connection is closed')
})

t.test('what is not going to be answered ends the connection behind the answer before it, however long that is', async (t) => {
  const { app, url, account, get } = await service(t)
  const file = Buffer.alloc(8 * 1024 * 1024, 'x')
  const path = pathOf((await upload(app, account, file)).json())
  for (const unanswered of ['CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n', '\0\0\r\n\r\n', `${get(path)}CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n`]) {
    const connection = new Connection(url)
    connection.send(get(path))
    connection.socket.pause()
    await new Promise((resolve) => setImmediate(resolve))
    connection.send(unanswered)
    connection.socket.resume()
    t.equal((await connection.answer()).body.length, file.length, JSON.stringify(unanswered))
    t.equal(await connection.rest(), '')
  }
})

t.test('behind a CONNECT or an upgrade are not served, and those before have their own answers', async (t) => {
  const { app, url, account, get } = await service(t)
  const page = await createPage(app, account)
  const path = `/landing_pages/${page.public_id}`
  const patch = (body: string): string => `PATCH /manage/landing_pages/${page.id} HTTP/1.1\r\nHost: x\r\nAuthorization: ${account.headers.authorization}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  const connect = 'CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\nX-Request-Id: connect\r\n\r\n'
  const upgraded = (path: string): string => get(path).replace('\r\n\r\n', '\r\nConnection: Upgrade\r\nUpgrade: z\r\n\r\n')
  const upgrade = upgraded('/health/live')
  const isOver = async (connection: Connection, status: number, what: string): Promise<void> => {
    const answer = await connection.answer()
    t.equal(answer.status, status, what)
    t.match(answer.head, /\r\nconnection: close\r\n/i, what)
    t.equal(await connection.rest(), '', what)
  }

  const written = new Connection(url)
  written.send(patch('{"current_data":[1]}') + connect)
  await isOver(written, 200, 'a write before a CONNECT')
  t.equal((await app.inject(path)).body, '[1]')

  const refused = patch('{"current_data":[2]}')
  const hidden = `POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: ${refused.length}\r\n\r\n`
  for (const [what, status, ...packets] of [
    ['a write behind an upgrade', 200, upgrade + refused],
    ['a write behind a refused upgrade', 401, upgraded('/auth/me').replace(/Authorization.*\r\n/, '') + refused],
    ['a write behind an upgrade of a page', 200, upgraded(path) + refused],
    ['a body behind an upgrade, that looks like a write', 200, upgrade + hidden, refused],
    ['the same, by size', 200, `${upgrade}${hidden.replace(String(refused.length), String(65_536 - upgrade.length))}`.padEnd(65_536, 'x') + refused]
  ] as const) {
    const connection = new Connection(url)
    for (const packet of packets) {
      connection.send(packet)
      await new Promise((resolve) => setImmediate(resolve))
    }
    await isOver(connection, status, what)
  }
  t.equal((await app.inject(path)).body, '[1]', 'nothing was written')
})

t.test('behind an answer that ends the connection are not served, and do no harm', async (t) => {
  const { app, url, account, get } = await service(t)
  const page = await createPage(app, account)
  const path = `/landing_pages/${page.public_id}`
  await app.inject(path) // a document that is known is answered at once
  // Who asked is known to be nobody before the body is read.
  const refused = (bytes: number): string => `DELETE /auth/sign_out HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${bytes}\r\n\r\n${' '.repeat(bytes)}`
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
      const connection = new Connection(url)
      connection.send(refused(bytes) + requests)
      const answer = await connection.answer()
      t.equal(answer.status, 401, `a body of ${bytes} bytes, then ${name}`)
      t.match(answer.head, /\r\nconnection: close\r\n/i)
      t.equal(await connection.rest(), '')
    }
  }
  t.equal((await app.inject(path)).statusCode, 200, 'nothing was written')
})
