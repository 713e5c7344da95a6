import t, { type Test } from 'tap'
import { pino } from 'pino'
import { buildApp } from '../../../src/app.ts'
import { loadConfig } from '../../../src/config.ts'
import { selfTests, type NodeInternals } from '../../../src/http/hardening/node-internals.ts'
import { createPage, listen, signUp, testSettings } from '../../helpers/app.ts'
import { Connection, requestOf, requestWith } from '../../helpers/raw.ts'
import { until } from '../../helpers/until.ts'

// The service works without the undocumented internals of Node, and logs which of them are missing.

/** Starts a service in which the self-tests of these internals fail. */
async function serviceWithout (t: Test, ...names: (keyof NodeInternals)[]) {
  for (const name of names) t.intercept(selfTests, name, { value: async () => false })
  const lines: { level: number, msg: string, internal?: string }[] = []
  const logger = pino({ level: 'info' }, { write: (line: string) => lines.push(JSON.parse(line)) })
  const app = await buildApp(loadConfig(await testSettings(t)), logger)
  t.teardown(async () => await app.close())
  const url = await listen(app)
  const account = await signUp(app)
  const page = await createPage(app, account)
  const warned = lines.filter(({ level }) => level === 40)
  const open = () => {
    const connection = new Connection(url)
    t.teardown(() => connection.socket.destroy())
    return connection
  }
  return { app, account, page, warned, open, read: requestOf(`/landing_pages/${page.public_id}`) }
}

t.test('this version of Node passes all self-tests, and nothing is logged', async (t) => {
  for (const [name, test] of Object.entries(selfTests)) t.equal(await test(), true, name)
  const { app, warned } = await serviceWithout(t)
  t.same(app.nodeInternals, { responseOrder: true, preparedHeads: true, acceptQueue: true })
  t.same(warned, [])
})

t.test('without prepared heads, public reads return the same responses', async (t) => {
  const { open, read, warned } = await serviceWithout(t, 'preparedHeads')
  t.match(warned, [{ internal: 'preparedHeads', msg: /public reads are slower$/ }])
  t.equal(warned.length, 1)
  const connection = open()
  connection.send(read)
  const cold = await connection.response()
  connection.send(read + read)
  for (let n = 0; n < 2; n++) {
    const warm = await connection.response()
    t.equal(warm.status, 200)
    t.ok(warm.body.equals(cold.body))
    t.match(warm.head, /\r\nConnection: keep-alive\r\n/)
  }
})

t.test('without access to the response order, each connection serves one request', async (t) => {
  const { app, account, page, open, read, warned } = await serviceWithout(t, 'responseOrder')
  t.match(warned, [{ internal: 'responseOrder' }, { internal: 'preparedHeads' }])
  const write = requestWith('{"current_data":[1]}', 'PATCH', `/manage/landing_pages/${page.id}`, {
    Authorization: account.headers.authorization,
    'Content-Type': 'application/json'
  }).toString()
  const me = requestOf('/auth/me', { Authorization: account.headers.authorization })
  for (const first of [read, me]) {
    for (const behind of ['', read, write, 'CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n', '\0\0\r\n\r\n']) {
      const connection = open()
      connection.send(first + behind)
      const response = await connection.response()
      t.equal(response.status, 200, `${first.slice(0, 10)}, then ${behind.slice(0, 10)}`)
      t.match(response.head, /\r\nconnection: close\r\n/i)
      await until(() => connection.closed, `closed: ${first.slice(0, 10)} ${behind.slice(0, 10)}`)
    }
  }
  t.equal(
    (await app.inject(`/landing_pages/${page.public_id}`)).body,
    '{"hello":"world"}',
    'nothing was written'
  )
  const idle = open()
  const busy = open()
  busy.send(me)
  t.equal((await busy.response()).status, 200)
  await app.shutDown()
  await app.close()
  await until(() => idle.closed, 'the shutdown closes idle connections')
})

t.test('without the accept queue, the shutdown closes the listener at once', async (t) => {
  const { app, open, read, warned } = await serviceWithout(t, 'acceptQueue')
  t.match(warned, [{ internal: 'acceptQueue', msg: /are reset$/ }])
  const connection = open()
  connection.send(read)
  t.equal((await connection.response()).status, 200)
  const shutdown = app.shutDown()
  await until(() => !app.server.listening, 'the listener is closed')
  connection.send(read)
  const last = await connection.response()
  t.equal(last.status, 200)
  t.match(last.head, /\r\nconnection: close\r\n/i)
  t.equal(await connection.rest(), '')
  await shutdown
})
