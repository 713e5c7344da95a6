import { once } from 'node:events'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createDatabase, claimRedis, freePort } from '../helpers/servers.ts'
import { runService, startService, temporaryFolder } from '../helpers/service.ts'

const json = { 'content-type': 'application/json' }
const credentials = { email: 'owner@example.com', password: 'correct horse' }
const post = async (url: string, body: unknown, headers: Record<string, string> = {}) => await fetch(url, { method: 'POST', headers: { ...json, ...headers }, body: JSON.stringify(body) })
const signUp = async (url: string) => await (await post(`${url}/auth/sign_up`, { user: { ...credentials, password_confirmation: credentials.password } })).json() as { access_token: string, refresh_token: string }
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

function embedded (t: Test): { DATA_DIR: string, UPLOADS_DIR: string } {
  const folder = temporaryFolder(t)
  return { DATA_DIR: join(folder, 'data'), UPLOADS_DIR: join(folder, 'uploads') }
}

for (const [signal, code] of [['SIGINT', 0], ['SIGTERM', 0], ['SIGKILL', 'SIGKILL']] as const) {
  t.test(`the embedded service finds everything again after ${signal}`, async (t) => {
    const env = embedded(t)
    const first = await startService(t, env)
    const { access_token: token, refresh_token: refreshToken } = await signUp(first.url)
    const page = await (await post(`${first.url}/landing_pages`, { current_data: { kept: true } }, bearer(token))).json() as { public_id: string }
    const form = new FormData()
    form.append('asset[file]', new Blob(['kept too']), 'kept.txt')
    const asset = await (await fetch(`${first.url}/assets`, { method: 'POST', headers: bearer(token), body: form })).json() as { url: string }
    t.equal(await first.end(signal), code)

    const second = await startService(t, env)
    t.equal((await fetch(`${second.url}/auth/me`, { headers: bearer(token) })).status, 200, 'the same secret')
    t.equal((await post(`${second.url}/auth/refresh`, { refresh_token: refreshToken })).status, 200)
    t.equal((await post(`${second.url}/auth/sign_in`, { user: credentials })).status, 200)
    t.equal(await (await fetch(`${second.url}/landing_pages/${page.public_id}`)).text(), '{"kept":true}')
    t.equal(await (await fetch(second.url + new URL(asset.url).pathname)).text(), 'kept too')
    t.equal(await second.end('SIGTERM'), 0)
  })
}

t.test('HOST=localhost is one address', async (t) => {
  const { url } = await startService(t, { ...embedded(t), HOST: 'localhost' })
  const { port } = new URL(url)
  const reaches = async (host: string) => await fetch(`http://${host}:${port}/health/live`).then(({ status }) => status === 200, () => false)
  t.same([await reaches('127.0.0.1'), await reaches('[::1]')], [true, false])
})

t.test('a second process on the same folder is turned away, the first goes on', async (t) => {
  const env = embedded(t)
  const first = await startService(t, env)
  const { code, output } = await runService(t, { ...env, PORT: String(await freePort()) })
  t.equal(code, 1)
  t.match(output, env.DATA_DIR)
  t.equal(output.split('\n').filter((line) => line.startsWith('Landfall could not start')).length, 1)
  t.notMatch(output, /\n\s+at /, 'no stack')
  await signUp(first.url)
  t.equal((await post(`${first.url}/auth/sign_in`, { user: credentials })).status, 200)
})

t.test('a start that can not succeed says why in a line and leaves nothing behind', async (t) => {
  const closed = await freePort()
  const file = join(temporaryFolder(t), 'file')
  writeFileSync(file, '')
  const database = { DATABASE_URL: await createDatabase(t), JWT_SECRET: 'x'.repeat(32), UPLOADS_DIR: temporaryFolder(t) }
  const taken = await startService(t, database)
  for (const [name, env, reason] of [
    ['a bad setting', { PORT: 'http' }, /^Landfall can't start with these settings:\nPORT must be a whole number from 0 to 65535\n$/],
    ['several', { PORT: 'http', LOG_LEVEL: 'loud' }, /\nPORT must be .*\nLOG_LEVEL must be one of fatal, /],
    ['no secret', { DATABASE_URL: 'postgresql://localhost/x' }, /JWT_SECRET must be set when DATABASE_URL is/],
    ['no PostgreSQL', { ...database, DATABASE_URL: `postgresql://user:hunter2@127.0.0.1:${closed}/x` }, /Landfall could not start: .*127\.0\.0\.1/],
    ['a data folder that is a file', { DATA_DIR: file, UPLOADS_DIR: temporaryFolder(t) }, /Landfall could not start: .*DATA_DIR/],
    ['an uploads folder that is a file', { ...database, UPLOADS_DIR: file }, /Landfall could not start: .*UPLOADS_DIR/],
    ['a port that is taken', { ...database, PORT: new URL(taken.url).port }, /Landfall could not start: HOST and PORT must .*EADDRINUSE/]
  ] as [string, Record<string, string>, RegExp][]) {
    const { code, output } = await runService(t, { PORT: '0', ...env })
    t.equal(code, 1, name)
    t.match(output, reason, name)
    t.notMatch(output, /hunter2|\n\s+at /, `${name}: no password, no stack`)
  }
})

t.test('settings come from a .env file, too; what the environment says wins', async (t) => {
  const folder = temporaryFolder(t)
  mkdirSync(join(folder, 'elsewhere'))
  writeFileSync(join(folder, '.env'), 'PORT=nonsense\nLOG_LEVEL=loud\n')
  const { output } = await runService(t, { LOG_LEVEL: 'info' }, ['sh', '-c', `cd '${folder}' && exec '${process.execPath}' '${join(import.meta.dirname, '../../dist/cli/landfall.js')}' serve`])
  t.match(output, /\nPORT must be /)
  t.notMatch(output, /LOG_LEVEL/)
  t.notOk(existsSync(join(folder, 'data')))
})

t.test('two replicas that start together on an empty database count one limit and see what the other does', async (t) => {
  const env = { DATABASE_URL: await createDatabase(t), REDIS_URL: await claimRedis(t), JWT_SECRET: 'x'.repeat(32), UPLOADS_DIR: temporaryFolder(t) }
  const [one, two] = await Promise.all([startService(t, env), startService(t, env)])
  const account = await signUp(one.url)
  const page = await (await post(`${one.url}/landing_pages`, { current_data: { v: 1 } }, bearer(account.access_token))).json() as { id: string, public_id: string }
  const read = async (url: string) => await fetch(`${url}/landing_pages/${page.public_id}`)
  t.equal(await (await read(two.url)).text(), '{"v":1}')
  await fetch(`${two.url}/manage/landing_pages/${page.id}`, { method: 'PATCH', headers: { ...json, ...bearer(account.access_token) }, body: '{"current_data":{"v":2}}' })
  t.equal(await (await read(two.url)).text(), '{"v":2}')
  while (await (await read(one.url)).text() !== '{"v":2}');

  t.equal((await fetch(`${two.url}/auth/me`, { headers: bearer(account.access_token) })).status, 200)
  const signedOut = await fetch(`${one.url}/auth/sign_out`, { method: 'DELETE', headers: { ...json, ...bearer(account.access_token) }, body: JSON.stringify({ refresh_token: account.refresh_token }) })
  t.equal(signedOut.status, 204)
  t.equal((await fetch(`${two.url}/auth/me`, { headers: bearer(account.access_token) })).status, 401)

  const counted = []
  for (let n = 0; n < 40; n++) counted.push((await read(n % 2 === 0 ? one.url : two.url)).status)
  const passed = counted.filter((status) => status === 200).length
  t.ok(passed <= 27, `three reads and more had passed before: ${passed}`)
  t.same(counted, [...Array(passed).fill(200), ...Array(40 - passed).fill(429)])
  t.same(await Promise.all([one.end('SIGTERM'), two.end('SIGTERM')]), [0, 0])
})

t.test('SIGTERM finishes what is in flight, and is not held up by idle or half-sent requests', async (t) => {
  const env = { DATABASE_URL: await createDatabase(t), JWT_SECRET: 'x'.repeat(32), UPLOADS_DIR: temporaryFolder(t), SHUTDOWN_TIMEOUT_MS: '2000' }
  const service = await startService(t, env)
  const sockets = ['', 'GET /health', 'POST /auth/sign_in HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{'].map((start) => {
    const socket = connect(Number(new URL(service.url).port), 'localhost', () => socket.write(start))
    socket.on('error', () => {})
    return socket
  })
  await signUp(service.url)
  const inFlight = Array.from({ length: 8 }, async () => (await post(`${service.url}/auth/sign_in`, { user: credentials })).status)
  await Promise.race(inFlight) // the others have all arrived by then
  const ending = service.end('SIGTERM')
  t.same(await Promise.all(inFlight), Array(8).fill(200))
  t.equal(await ending, 0)
  for (const socket of sockets) socket.destroy()
})

t.test('SIGTERM cuts off no answer that is still being read, and waits for nobody who has only begun to ask', async (t) => {
  // A wait for the limit would be one for ever.
  const env = { DATABASE_URL: await createDatabase(t), JWT_SECRET: 'x'.repeat(32), UPLOADS_DIR: temporaryFolder(t), SHUTDOWN_TIMEOUT_MS: '600000', MAX_DOCUMENT_BYTES: '30000000' }
  const service = await startService(t, env)
  const account = await signUp(service.url)
  const document = JSON.stringify(['x'.repeat(20_000_000)])
  const page = await (await post(`${service.url}/landing_pages`, { current_data: JSON.parse(document) }, bearer(account.access_token))).json() as { public_id: string }

  const open = (text: string) => connect(Number(new URL(service.url).port), 'localhost').on('error', () => {}).setNoDelay(true).on('connect', function (this: Socket) { this.write(text) })
  const halfSent = ['GET /hea', 'GET /health/live HTTP/1.1\r\nHost: x\r\nX-'].map(open)
  const reader = open(`GET /landing_pages/${page.public_id} HTTP/1.1\r\nHost: x\r\n\r\n`)
  let received = 0
  reader.on('data', (chunk: Buffer) => { received += chunk.length })
  await once(reader, 'data')
  reader.pause()
  const ending = service.end('SIGTERM')
  await Promise.all(halfSent.map(async (socket) => { socket.resume(); await once(socket, 'close') }))
  reader.resume()
  await once(reader, 'close')
  t.ok(received > document.length, `${received} bytes of the answer`)
  t.equal(await ending, 0)
})
