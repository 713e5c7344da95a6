import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { buildTestApp, listen, signUp } from '../../helpers/app.ts'

const app = await buildTestApp(t)
const url = new URL(await listen(app))

/** Sends raw bytes and returns everything received until the server closes the connection. */
async function raw (bytes: string | Buffer, { port, hostname } = url): Promise<string> {
  return await new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => socket.write(bytes))
    let answer = ''
    socket.on('data', (data) => {
      answer += data.toString('latin1')
    })
    socket.on('close', () => resolve(answer))
    socket.on('error', (error) => {
      if (answer === '') reject(error)
    })
  })
}

t.test('a client that resets its connection does not stop the service', async (t) => {
  for (
    const bytes of [
      'CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n',
      'garbage\r\n\r\n',
      'GET / HTTP/1.1\r\nHost: x\r\nExpect: x\r\n\r\n',
      'GET /health/live HTTP/1.1\r\nHost: x\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n'
    ]
  ) {
    for (let n = 0; n < 5; n++) {
      await new Promise<void>((resolve) => {
        const socket = connect(
          Number(url.port),
          url.hostname,
          () => socket.write(bytes, () => socket.resetAndDestroy())
        )
        socket.on('error', () => {}).on('close', () => resolve())
      })
    }
  }
  t.equal((await fetch(`${url.origin}/health/live`)).status, 200)
})

t.test('the time-out of a pipelined body on a closed connection does not stop the service', async (t) => {
  const hasty = await buildTestApp(t, { settings: { BODY_TIMEOUT_MS: '300' } })
  const { port, origin } = new URL(await listen(hasty))
  const body = JSON.stringify({ user: { email: 'nobody@example.com', password: 'x' } })
  for (let n = 0; n < 5; n++) {
    await new Promise<void>((resolve) => {
      const socket = connect(
        Number(port),
        '127.0.0.1',
        () =>
          socket
            .write('POST /auth/sign_in HTTP/1.1\r\nHost: x\r\nContent-Type: ' +
              `application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}` +
              'POST /auth/refresh HTTP/1.1\r\nHost: x\r\nContent-Type: ' +
              'application/json\r\nContent-Length: 50\r\n\r\n{"a"')
      )
      socket.on('error', () => {}).on('close', () => resolve())
      hasty.server.once('request', () => setImmediate(() => socket.destroy()))
    })
  }
  await sleep(600) // longer than BODY_TIMEOUT_MS
  t.equal((await fetch(`${origin}/health/live`)).status, 200)
})

t.test('every response has X-Request-Id and repeats a valid one of the client', async (t) => {
  const idFor = async (given: string | undefined, path = '/health/live') =>
    (await app.inject({ url: path, headers: given === undefined ? {} : { 'x-request-id': given } }))
      .headers['x-request-id']
  t.equal(await idFor('abc-123'), 'abc-123')
  t.equal(await idFor('trace:4711/a.b_c=@+', '/nothing'), 'trace:4711/a.b_c=@+')
  for (const given of [undefined, '', 'x'.repeat(129), 'two words', 'a\u00e9', '<script>', 'a,b', 'a"b']) {
    t.match(await idFor(given), /^[\w-]{12}-[0-9a-z]+$/, String(given))
  }
  t.not(await idFor(undefined), await idFor(undefined))
  for (const path of ['/nothing', '/landing_pages/x', '/landing_pages/%zz', '/auth/me', '/uploads/x']) {
    t.equal(await idFor('kept', path), 'kept', path)
  }
})

t.test('refusals of Expect and CONNECT also repeat a valid X-Request-Id', async (t) => {
  for (
    const request of [
      'GET /health/live HTTP/1.1\r\nHost: x\r\nExpect: nonsense\r\nConnection: close\r\n',
      'CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n'
    ]
  ) {
    t.match(
      await raw(`${request}X-Request-Id: mine\r\n\r\n`),
      /\r\nx-request-id: mine\r\n/i,
      request.slice(0, 20)
    )
    t.match(
      await raw(`${request}X-Request-Id: not sane\r\n\r\n`),
      /\r\nx-request-id: [\w-]{12}-[0-9a-z]+\r\n/
    )
  }
})

t.test('a 500 reveals nothing but the request id', async (t) => {
  const broken = await buildTestApp(t)
  const account = await signUp(broken)
  await broken.database.$executeRaw`ALTER TABLE landing_pages RENAME COLUMN content_hash TO something_else`
  const response = await broken.inject({
    url: `/manage/landing_pages/${'0'.repeat(8)}-0000-0000-0000-000000000000`,
    headers: { ...account.headers, 'x-request-id': 'the-request' }
  })
  t.equal(response.statusCode, 500)
  t.equal(response.body, '{"errors":["Something went wrong (request the-request)"]}')
})
