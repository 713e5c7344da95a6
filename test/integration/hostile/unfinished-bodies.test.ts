import t, { type Test } from 'tap'
import { clock } from '../../../src/infra/system/clock.ts'
import { replaceClock } from '../../helpers/clock.ts'
import { buildTestApp, createPage, listen, signIn, signUp, type Account } from '../../helpers/app.ts'
import { connection as connectionTo, type Connection } from '../../helpers/raw.ts'
import { until } from '../../helpers/until.ts'

// Requests whose bodies are announced, or begun, and never finished.

const KIB = 1024
const MEMORY = 1024 * KIB
/** Of an account, and of the sessions of an address. */
const SHARE = MEMORY / 4
/** Of an address without a session. */
const ANONYMOUS_SHARE = MEMORY / 16
const LARGE = JSON.stringify({ text: 'x'.repeat(100 * KIB) })

async function startService (t: Test) {
  const app = await buildTestApp(t, {
    MAX_BODY_MEMORY_BYTES: String(MEMORY),
    TRUST_PROXY: '127.0.0.1',
    BODY_TIMEOUT_MS: '60000'
  })
  // No body is late, however slow the machine is.
  const now = clock.now()
  replaceClock(t, () => now)
  const url = await listen(app)
  const connections: Connection[] = []

  /** The bytes that the service counts. */
  async function held (): Promise<number> {
    const text = await app.metrics.getSingleMetricAsString('landfall_request_body_bytes')
    return Number(/^landfall_request_body_bytes (\d+)$/m.exec(text)?.[1])
  }

  /** Sends the head of a request and nothing of its body. */
  async function begin (address: string, path: string, head: string): Promise<Connection> {
    const connection = connectionTo(t, url)
    connections.push(connection)
    connection
      .send(`POST ${path} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${address}\r\nContent-Type: ` +
        `application/json\r\n${head}\r\n`)
    return connection
  }

  /** Sends a body except for its last byte. */
  async function send (address: string, path: string, bytes: number, more = ''): Promise<Connection> {
    const connection = await begin(address, path, `Content-Length: ${bytes}\r\n${more}`)
    connection.send(' '.repeat(bytes - 1))
    return connection
  }

  /** The same, and waits until the service has counted the body. */
  async function fill (address: string, path: string, bytes: number, more = ''): Promise<void> {
    const before = await held()
    await send(address, path, bytes, more)
    await until(async () => await held() >= before + bytes - 1, 'the body is counted')
  }

  async function refused (address: string, path: string, bytes: number, more = ''): Promise<void> {
    const { status, head, body } = await (await send(address, path, bytes, more)).response()
    t.equal(status, 503)
    t.match(head, /\r\nretry-after: [1-9]/i)
    t.same(JSON.parse(body.toString()), {
      errors: ['Too many request bodies are being received, try again shortly']
    })
  }

  return { app, url, connections, held, begin, fill, refused }
}

const bearer = ({ headers }: Account): string => `Authorization: ${headers.authorization}\r\n`

t.test('announced bodies that never arrive take no memory', async (t) => {
  const { app, connections, held, begin } = await startService(t)
  const other = await signUp(app)
  for (let address = 1; address <= 4; address++) {
    const attacker = await signUp(app)
    const from = `192.0.2.${address}`
    for (let n = 0; n < 16; n++) {
      await begin(from, '/auth/sign_in', `Content-Length: ${ANONYMOUS_SHARE / 16}\r\n`)
      await begin(from, '/landing_pages', `Content-Length: ${SHARE / 16}\r\n${bearer(attacker)}`)
    }
  }
  const open = async () =>
    await new Promise((resolve) => app.server.getConnections((_error, count) => resolve(count)))
  await until(async () => await open() === connections.length, 'all requests have arrived')
  await createPage(app, other, LARGE)
  await signIn(app, other, { headers: { 'x-forwarded-for': '192.0.2.1' } })
  t.equal(await held(), 0)
})

t.test('one account gets a quarter of the memory, from any number of addresses', async (t) => {
  const { app, connections, held, fill, refused } = await startService(t)
  const [attacker, other] = [await signUp(app), await signUp(app)]
  for (let n = 1; n <= 2; n++) await fill(`192.0.2.${n}`, '/landing_pages', SHARE / 2, bearer(attacker))
  await refused('192.0.2.3', '/landing_pages', SHARE / 2, bearer(attacker))

  const page = await createPage(app, other, LARGE)
  t.equal((await app.inject(`/landing_pages/${page.public_id}`)).statusCode, 200)

  for (const { socket } of connections) socket.destroy()
  await until(async () => await held() === 0, 'the memory is given back')
  await createPage(app, attacker, '{}')
})

t.test('one address without a session gets a sixteenth of the memory, besides that of its sessions', async (t) => {
  const { app, fill, refused } = await startService(t)
  const owner = await signUp(app)
  for (let n = 0; n < 4; n++) await fill('192.0.2.1', '/auth/sign_in', ANONYMOUS_SHARE / 4)
  await refused('192.0.2.1', '/auth/sign_in', ANONYMOUS_SHARE / 4)
  await fill('192.0.2.2', '/auth/sign_in', ANONYMOUS_SHARE / 4)
  await fill('192.0.2.1', '/landing_pages', SHARE / 2, bearer(owner))
})

t.test('large bodies leave room for small ones', async (t) => {
  const { app, held, fill, refused } = await startService(t)
  const owner = await signUp(app)
  const page = await createPage(app, owner, '{}')
  for (let n = 1; n <= 3; n++) await fill(`192.0.2.${n}`, '/landing_pages', SHARE, bearer(await signUp(app)))
  await refused('192.0.2.4', '/landing_pages', SHARE / 2, bearer(owner))
  t.ok(await held() <= MEMORY * 3 / 4)
  await createPage(app, owner, '{"small":true}')
  await signIn(app, owner)
  t.equal((await app.inject(`/landing_pages/${page.public_id}`)).statusCode, 200)
})

t.test('a body in chunks counts as it arrives', async (t) => {
  const { app, held, begin, fill } = await startService(t)
  const { headers: { authorization } } = await signUp(app)
  await fill('192.0.2.1', '/landing_pages', SHARE - 8 * KIB, `Authorization: ${authorization}\r\n`)
  const before = await held()
  const connection = await begin(
    '192.0.2.2',
    '/landing_pages',
    `Transfer-Encoding: chunked\r\nAuthorization: ${authorization}\r\n`
  )
  const chunk = `1000\r\n${' '.repeat(4 * KIB)}\r\n`
  connection.send(chunk)
  await until(async () => await held() === before + 4 * KIB, 'the first chunk is counted')
  connection.send(chunk.repeat(4))
  t.equal((await connection.response()).status, 503)
})
