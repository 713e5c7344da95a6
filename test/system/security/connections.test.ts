import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { buildTestApp, listen, testSettings } from '../../helpers/app.ts'
import { Owner } from '../../helpers/client.ts'
import { connection, requestOf, type Connection } from '../../helpers/raw.ts'
import { claimRedis, freePort } from '../../helpers/servers.ts'
import { startService } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// Limits on connections and on the time that a request may take to arrive.

/** Sends a request; returns whether it is answered before the connection is closed. */
const isAnswered = async (client: Connection): Promise<boolean> =>
  await client.ask('/health/live').then(() => true, (error: Error) => {
    if (!client.closed) throw error
    return false
  })

t.test('connections beyond the limit are closed, earlier ones served', async (t) => {
  const url = await listen(await buildTestApp(t, { MAX_CONNECTIONS: '3' }))
  const clients: Connection[] = []
  for (let n = 0; n < 3; n++) {
    const client = connection(t, url)
    t.ok(await isAnswered(client))
    clients.push(client)
  }
  for (let n = 0; n < 5; n++) t.notOk(await isAnswered(connection(t, url)))
  for (const client of clients) t.ok(await isAnswered(client), 'the earlier connections are served')

  clients[0]?.socket.destroy()
  let entered: Connection
  do entered = connection(t, url)
  while (!await isAnswered(entered))
  t.notOk(await isAnswered(connection(t, url)), 'for one')
  t.ok(await isAnswered(entered))
})

t.test('few file descriptors mean fewer connections', async (t) => {
  const command = `ulimit -n 300 && exec '${process.execPath}' dist/cli/landfall.js serve`
  const opsPort = await freePort()
  const settings = { ...await testSettings(t), LOG_LEVEL: 'info', OPS_PORT: String(opsPort) }
  const service = await startService(t, settings, ['bash', '-c', command])
  t.match(service.output(), /MAX_CONNECTIONS is 10000, but the limit of open files \(ulimit -n\) allows 100/)
  const owner = await Owner.signUp(service.url)
  const { text } = await owner.upload(service.url, Buffer.alloc(4 * 1024 * 1024), 'large.bin')
  const { pathname } = new URL(JSON.parse(text).url)
  const greedy = Array.from({ length: 400 }, () => {
    const client = connection(t, service.url)
    client.socket.pause()
    client.send(requestOf(pathname))
    return client
  })
  await until(async () => {
    // Among them is the memory that the process uses. To read it needs a file descriptor, too.
    const metrics = await (await fetch(`http://127.0.0.1:${opsPort}/metrics`)).text()
    return /^process_resident_memory_bytes \d/m.test(metrics) && /^landfall_connections 100$/m.test(metrics)
  }, 'all places are taken')
  t.equal(service.child.exitCode, null)
  for (const { socket } of greedy) socket.destroy()
  while (!await isAnswered(connection(t, service.url)));
  t.equal(await owner.accessStatus(service.url), 200)
})

t.test("workers at their limit close new connections and don't pass them to each other", async (t) => {
  const service = await startService(t, {
    ...await testSettings(t),
    REDIS_URL: await claimRedis(t),
    WEB_CONCURRENCY: '2',
    MAX_CONNECTIONS: '2'
  })
  // The connections of the readiness checks may still be open.
  let kept: Connection[]
  do {
    kept = Array.from({ length: 8 }, () => connection(t, service.url))
    await Promise.all(kept.map(async (client) => await isAnswered(client)))
    kept = kept.filter(({ closed }) => !closed)
  } while (kept.length === 0)
  t.ok(kept.length <= 4, `two workers keep ${kept.length} of 8 connections`)
  const more = Array.from({ length: 20 }, () => connection(t, service.url))
  const responses = await Promise.all(more.map(async (client) => await isAnswered(client)))
  t.ok(responses.filter(Boolean).length <= 4 - kept.length, 'every other connection is closed at once')
  for (const client of kept) t.ok(await isAnswered(client))
})

t.test('an answered connection may stay idle for longer than HEADERS_TIMEOUT_MS', async (t) => {
  const app = await buildTestApp(t, { HEADERS_TIMEOUT_MS: '200' })
  const client = connection(t, await listen(app))
  t.ok(await isAnswered(client))
  await Promise.race([once(client.socket, 'close'), sleep(1000)])
  t.ok(await isAnswered(client))
  t.ok(
    app.server.keepAliveTimeout > 60_000,
    'longer than load balancers keep a connection, so that they close it first'
  )
})
