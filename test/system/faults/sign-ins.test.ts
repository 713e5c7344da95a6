import { once } from 'node:events'
import { connect } from 'node:net'
import t from 'tap'
import { until } from '../../helpers/until.ts'
import { buildTestApp, createPage, listen, PASSWORD, signUp, testSettings } from '../../helpers/app.ts'
import { call, Owner } from '../../helpers/client.ts'
import { Readers, statuses } from '../../helpers/readers.ts'
import { startService } from '../../helpers/service.ts'

// The effect of hundreds of sign-ins at once on other requests. `npm run bench:neighbours` measures times.

const AT_ONCE = 200
const ACCOUNTS = 20
const SETTINGS = {
  TRUST_PROXY: '127.0.0.1', // each sign-in comes from an address of its own
  RATE_LIMIT_PUBLIC: '1000000',
  SIGN_IN_FAILURES_PER_ACCOUNT: '1000000',
  SIGN_IN_FAILURES_PER_ADDRESS: '1000000'
}

t.test('200 sign-ins at once fail no read', async (t) => {
  const { url } = await startService(t, { ...await testSettings(t), ...SETTINGS })
  const owners: Owner[] = []
  while (owners.length < ACCOUNTS) owners.push(await Owner.signUp(url))
  const page = await owners[0]!.createPage(url, '{"read":"all the time"}')
  const readers = new Readers(t, { urls: [url], publicIds: [page.public_id] })
  const signIn = async (n: number, isRight: boolean) => {
    // Sign-ins to one account are made one after the other.
    const user = isRight ? { email: owners[n % ACCOUNTS]!.email, password: PASSWORD }
      : { email: `nobody-${n}@example.com`, password: 'not the password' }
    const headers = { 'x-forwarded-for': `203.0.113.${n}` }
    return await call('POST', `${url}/auth/sign_in`, { headers, json: { user } })
  }

  const responses: Awaited<ReturnType<typeof signIn>>[] = []
  const reads = await readers.during(async () => {
    await Promise.all(Array.from({ length: AT_ONCE }, async (_, n) => {
      const isRight = n % 2 === 0
      const response = await signIn(n, isRight)
      responses.push(response)
      if (response.status !== 503) return t.equal(response.status, isRight ? 200 : 401)
      t.ok(Number(response.headers.get('retry-after')) >= 1, 'has Retry-After')
      t.equal(JSON.parse(response.text).errors.length, 1)
    }))
  })
  const answered = statuses(responses)
  t.equal(responses.length, AT_ONCE)
  t.ok(Number(answered[503]) > 0, 'some sign-ins were refused')
  t.ok(reads.length > 0)
  t.same(Object.keys(statuses(reads)), ['200'])
  t.equal((await signIn(0, true)).status, 200, 'a later sign-in succeeds')
})

t.test('a read overtakes hundreds of sign-ins', async (t) => {
  const app = await buildTestApp(t, SETTINGS)
  const owner = await signUp(app)
  const page = await createPage(app, owner)
  const { passwordHash } = await app.database.user.findUniqueOrThrow({ where: { id: owner.user.id } })
  const users = Array.from({ length: AT_ONCE }, (_, n) => ({ email: `user-${n}@example.com`, passwordHash }))
  await app.database.user.createMany({ data: users })
  const { host, port } = new URL(await listen(app))
  let accepted = 0
  app.server.on('connection', () => {
    accepted++
  })
  // All connections are open before the requests are sent, so the service finds all requests at once. The
  // read is the last one.
  const sockets = await Promise.all(Array.from({ length: AT_ONCE + 1 }, async () => {
    const socket = connect(Number(port), '127.0.0.1').setNoDelay(true)
    await once(socket, 'connect')
    return socket
  }))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
  })
  await until(() => accepted > AT_ONCE, 'the service has accepted all connections')
  t.equal((await app.inject(`/landing_pages/${page.public_id}`)).statusCode, 200, 'the page is in memory')
  const begun = t.capture(app.passwords, 'verify', app.passwords.verify)
  const responses = sockets.map(async (socket, n) => {
    const body = JSON.stringify({ user: { email: users[n]?.email, password: PASSWORD } })
    socket.write(n === AT_ONCE
      ? `GET /landing_pages/${page.public_id} HTTP/1.1\r\nHost: ${host}\r\n\r\n`
      : `POST /auth/sign_in HTTP/1.1\r\nHost: ${host}\r\nX-Forwarded-For: 203.0.113.${n}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
    const [response] = await once(socket, 'data') as [Buffer]
    return {
      status: Number(response.toString('latin1').split(' ')[1]),
      begun: n === AT_ONCE ? begun().length : 0
    }
  })
  const read = await responses.at(-1)
  t.equal(read?.status, 200)
  t.ok(Number(read?.begun) < AT_ONCE / 4, `${read?.begun} sign-ins began before the read`)
  for (const { status } of await Promise.all(responses)) t.ok([200, 503].includes(status))
})
