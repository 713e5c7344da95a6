import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { until } from '../../helpers/until.ts'
import { PASSWORD, testSettings } from '../../helpers/app.ts'
import { END, file, FORM, partHead } from '../../helpers/assets.ts'
import { call, Owner, type Response } from '../../helpers/client.ts'
import { Readers, statuses } from '../../helpers/readers.ts'
import { connection, requestOf } from '../../helpers/raw.ts'
import { claimRedis } from '../../helpers/servers.ts'
import { startService } from '../../helpers/service.ts'

// SIGTERM under load, with idle connections, incomplete requests and a response that is being sent.

/** The status of a response, or the reason why there was none. */
type Outcome = number | string

for (const workers of ['1', '2']) {
  t.test(`SIGTERM under load fails no request and ends in time (WEB_CONCURRENCY=${workers})`, async (t) => {
    const service = await startService(t, {
      ...await testSettings(t),
      LOG_LEVEL: 'info',
      REDIS_URL: await claimRedis(t),
      WEB_CONCURRENCY: workers,
      RATE_LIMIT_PUBLIC: '1000000',
      SHUTDOWN_DELAY_MS: '3000', // long enough for a health check on a busy machine
      SHUTDOWN_TIMEOUT_MS: '60000'
    })
    if (workers !== '1') {
      await until(() => service.output().includes('all workers are listening'), 'all workers listen')
    }
    const url = service.url.replace('localhost', '127.0.0.1')
    const owner = await Owner.signUp(url)
    const page = await owner.createPage(url, '{"read":"until the end"}')
    // Readers keep connections, and don't repeat a request whose connection was closed.
    const readers = new Readers(t, { urls: [url], publicIds: [page.public_id], intervalMs: 5, resend: false })
    const agent = new Agent({ keepAlive: true })
    t.teardown(() => agent.destroy())
    const send = async (
      method: string,
      path: string,
      body?: string | AsyncIterable<Buffer>,
      headers: Record<string, string> = {}
    ) =>
      await new Promise<Outcome>((resolve) => {
        const sent = request(`${url}${path}`, {
          method,
          agent,
          headers: { authorization: `Bearer ${owner.accessToken}`, ...headers }
        }, (response) => {
          response.resume().on('end', () => resolve(response.statusCode as number)).on('error', (error) =>
            resolve(error.message))
        })
        sent.on('error', (error) =>
          resolve(error.message))
        if (typeof body === 'string' || body === undefined) sent.end(body)
        else writeSlowly(body, sent).catch((error: Error) => resolve(error.message))
      })

    const asked: Outcome[] = []
    const notReady = new AbortController()
    t.teardown(() => notReady.abort())
    const asking = Promise.all(['/auth/me', '/manage/landing_pages', '/assets'].map(async (path) => {
      while (!notReady.signal.aborted) {
        asked.push(await send('GET', path))
        await sleep(10)
      }
    }))
    const rest = new AbortController()
    const upload = send(
      'POST',
      '/assets',
      (async function* () {
        yield Buffer.concat([partHead(file('')), Buffer.from('the first half, ')])
        while (!rest.signal.aborted) {
          yield Buffer.from('.')
          await sleep(100)
        }
        yield Buffer.from(`the second half\r\n${END}`)
      })(),
      { 'content-type': FORM }
    )
    const halfBody = 'POST /auth/sign_in HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n' +
      'Content-Length: 100\r\n\r\n{"us'
    const halfSent = ['GET /hea', 'GET /auth/me HTTP/1.1\r\nHost: x\r\nX-', halfBody]
    const left = ['', '', ...halfSent].map((text) => {
      const { socket } = connection(t, url)
      if (text !== '') socket.write(text)
      return socket
    })
    await readers.for(300)
    const credentials = JSON.stringify({ user: { email: owner.email, password: PASSWORD } })
    const json = { 'content-type': 'application/json' }
    const signIns = Array.from(
      { length: 6 },
      async () => await send('POST', '/auth/sign_in', credentials, json)
    )
    await Promise.race(signIns) // the other sign-ins have arrived by now

    const exit = once(service.child, 'exit')
    const kept = connection(t, url)
    t.notMatch((await kept.ask('/health/live')).head, /connection: close/i)
    const reads = await readers.during(async () => {
      service.child.kill('SIGTERM')
      // Stops sending when /health/ready is 503, as a load balancer does.
      let health: Response
      do health = await call('GET', `${url}/health/ready`)
      while (health.status === 200)
      t.equal(health.status, 503, '/health/ready is 503 while requests are still answered')
      t.ok(Number(health.headers.get('retry-after')) >= 1)
      t.equal((await call('GET', `${url}/health/live`)).status, 200)
      notReady.abort()
      await readers.stop()
    })
    await asking
    t.same(statuses(reads), { 200: reads.length }, 'no read failed')
    let last = ''
    while (!/connection: close/i.test(last)) { // the header comes before the connection is closed
      last = (await kept.ask('/health/live')).head
      await sleep(20)
    }
    if (workers === '1') {
      t.match(
        await connection(t, url).ask('/health/live').catch((error: Error) => error.message),
        /closed/,
        'new connections are refused'
      )
    }
    t.same([...new Set(asked)], [200], `${asked.length} management requests`)
    t.same(await Promise.all(signIns), Array(6).fill(200), 'the sign-ins in flight succeed')

    // Incomplete requests are cut off, and the upload, which goes on slowly, is finished.
    await Promise.all(left.map(async (socket) => socket.destroyed || await once(socket, 'close')))
    t.equal(service.child.exitCode, null, 'the service waits for the upload')
    rest.abort()
    t.equal(await upload, 201, 'the upload in flight succeeds')
    t.same(await exit, [0, null])
    t.notMatch(service.output(), /are cut off|are killed/)
  })
}

async function writeSlowly (chunks: AsyncIterable<Buffer>, to: NodeJS.WritableStream): Promise<void> {
  for await (const chunk of chunks) to.write(chunk)
  to.end()
}

for (const host of ['127.0.0.1', '0.0.0.0']) {
  t.test(`connections in the listen queue at SIGTERM are answered, on ${host}`, async (t) => {
    const service = await startService(t, { ...await testSettings(t), HOST: host, SHUTDOWN_DELAY_MS: '0' })
    const url = service.url.replace('localhost', '127.0.0.1')
    const exit = once(service.child, 'exit')
    const group = -(service.child.pid as number)
    process.kill(group, 'SIGSTOP')
    const connections = Array.from({ length: 100 }, () => connection(t, url))
    const responses = connections.map(async (waiting) =>
      await waiting.ask('/health/live').then(({ status }) => status, (error: Error) => error.message)
    )
    await Promise.all(connections.map(async ({ socket }) => {
      if (socket.connecting) await once(socket, 'connect')
    }))
    process.kill(group, 'SIGTERM')
    process.kill(group, 'SIGCONT')
    t.same([...new Set(await Promise.all(responses))], [200])
    t.same(await exit, [0, null])
  })
}

t.test('SIGTERM cuts off no response that is being sent', async (t) => {
  const limits = { SHUTDOWN_TIMEOUT_MS: '600000', MAX_DOCUMENT_BYTES: '30000000' }
  const service = await startService(t, { ...await testSettings(t), ...limits })
  const document = JSON.stringify(['x'.repeat(20_000_000)])
  const page = await (await Owner.signUp(service.url)).createPage(service.url, document)
  const { socket } = connection(t, service.url)
  let received = 0
  socket.on('data', (chunk: Buffer) => {
    received += chunk.length
  })
  socket.write(requestOf(`/landing_pages/${page.public_id}`))
  await once(socket, 'data')
  socket.pause()
  const ending = service.end('SIGTERM')
  await until(async () => await call('GET', `${service.url}/health/live`).then(() => false, () => true))
  socket.resume()
  await once(socket, 'close')
  t.ok(received > document.length, `${received} bytes of the response`)
  t.equal(await ending, 0)
})

t.test('a second SIGTERM ends the service at once', async (t) => {
  const service = await startService(t, {
    ...await testSettings(t),
    SHUTDOWN_DELAY_MS: '500000',
    SHUTDOWN_TIMEOUT_MS: '600000'
  })
  const exit = once(service.child, 'exit')
  const kept = connection(t, service.url)
  await kept.ask('/health/live')
  service.child.kill('SIGTERM')
  await until(async () => (await kept.ask('/health/ready')).status === 503, 'the shutdown has begun')
  service.child.kill('SIGTERM')
  t.same(await exit, [0, null])
})
