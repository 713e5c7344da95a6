import t, { type Test } from 'tap'
import { pino } from 'pino'
import { buildApp } from '../../../src/app.ts'
import { loadConfig } from '../../../src/config.ts'
import { selfTest } from '../../../src/http/hardening/node-internals.ts'
import { createPage, listen, signUp, testSettings } from '../../helpers/app.ts'
import { Connection, requestOf, requestWith } from '../../helpers/raw.ts'
import { until } from '../../helpers/until.ts'

// The service works without the undocumented internals of Node.

/** Starts a service, perhaps one in which the self-test fails. */
async function startService (t: Test, passes: boolean) {
  if (!passes) t.intercept(selfTest, 'passes', { value: async () => false })
  const lines: { level: number, msg: string }[] = []
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

t.test('this version of Node passes the self-test, and nothing is logged', async (t) => {
  t.equal(await selfTest.passes(), true)
  const { app, warned } = await startService(t, true)
  t.equal(app.hasResponseInternals, true)
  t.same(warned, [])
})

t.test('without the internals of responses, each connection serves one request', async (t) => {
  const { app, account, page, open, read, warned } = await startService(t, false)
  t.match(warned, [{ msg: /no keep-alive/ }])
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
      if (first === read) t.equal(response.body.toString(), '{"hello":"world"}')
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
