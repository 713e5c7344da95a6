import t from 'tap'
import { testSettings } from '../../helpers/app.ts'
import { provide } from '../../shared/programs.ts'
import { connection, requestOf, whyNoError } from '../../helpers/raw.ts'
import { startService, temporaryFolder } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'
import { startBalancer } from '../../shared/balancer.ts'

// One client can't use up nginx and so harm the others. X-Forwarded-For names the client, as behind a CDN.

const nginx = provide('nginx')
const REAL_ADDRESSES = 'set_real_ip_from 127.0.0.0/8; real_ip_header X-Forwarded-For; real_ip_recursive on;'

t.test('nginx with slow clients', async (t) => {
  const replica = (await startService(t, { ...await testSettings(t), TRUST_PROXY: '127.0.0.1' })).url.replace(
    'localhost',
    '127.0.0.1'
  )
  const { url } = await startBalancer(t, {
    nginx,
    uploads: temporaryFolder(t),
    replicas: [replica, replica],
    variables: { NGINX_CONNECTIONS_PER_ADDRESS: '3' },
    lines: REAL_ADDRESSES
  })
  const ask = async (address: string, method = 'GET', server = url) => {
    const asked = connection(t, server)
    const response = await asked.ask(
      '/health/live',
      { 'X-Forwarded-For': address, Connection: 'close' },
      method
    )
    asked.socket.destroy()
    return response
  }
  /** Sends the head of a request with a body; resolves when nginx waits for the body. */
  const begin = async (path: string, address: string, length = 1000) => {
    const begun = connection(t, url)
    begun
      .send(requestOf(path, {
        'X-Forwarded-For': address,
        'Content-Type': 'application/json',
        'Content-Length': `${length}`,
        Expect: '100-continue'
      }, 'POST'))
    t.equal((await begun.response()).status, 100)
    return begun
  }

  t.test('a client that sends more requests than the limit gets 429, and others are served', async (t) => {
    const limited = await startBalancer(t, {
      nginx,
      uploads: temporaryFolder(t),
      replicas: [replica, replica],
      variables: { NGINX_REQUESTS_PER_SECOND: '1', NGINX_REQUESTS_BURST: '2' },
      lines: REAL_ADDRESSES
    })
    let refused
    await until(async () => {
      refused = await ask('192.0.2.1', 'GET', limited.url)
      return refused.status === 429
    }, 'the limit is reached')
    t.equal(whyNoError(refused as never), undefined)
    t.match(refused, { head: /\r\nRetry-After: 1\r\n/ })
    t.equal((await ask('192.0.2.2', 'GET', limited.url)).status, 200)
    await until(
      async () => (await ask('192.0.2.1', 'GET', limited.url)).status === 200,
      'requests are accepted again'
    )
  })

  t.test('a request without a token gets 401 before its body has arrived', async (t) => {
    const begun = await begin('/landing_pages', '192.0.2.9', 1_000_000)
    begun.send(`{${' '.repeat(100_000)}`)
    t.equal((await begun.response()).status, 401)
  })

  for (
    const { one, same, other } of [
      { one: '192.0.2.1', same: '192.0.2.1', other: '192.0.2.2' },
      { one: '2001:db8:0:1::1', same: '2001:db8:0:1:ffff::1', other: '2001:db8:0:2::1' }
    ]
  ) {
    t.test(`requests of ${one} beyond the limit get 503, and ${other} is served`, async (t) => {
      const held = [
        await begin('/auth/sign_in', one),
        await begin('/auth/sign_in', same),
        await begin('/auth/sign_in', one)
      ]
      const refused = await ask(same)
      t.equal(refused.status, 503)
      t.equal(whyNoError(refused), undefined)
      t.match(refused.body.toString(), /Too many requests at once from your address/)
      t.match(refused.head, /\r\nRetry-After: 1\r\n/)
      t.match(
        (await ask(same, 'POST')).head,
        /^HTTP\/1.1 503 [^]*\r\nRetry-After: 1\r\n/,
        'Retry-After is sent also for a POST, because it had no effect'
      )
      t.equal((await ask(other)).status, 200)
      held.pop()?.socket.destroy()
      await until(
        async () => (await ask(same)).status === 200,
        'another request is accepted after one has ended'
      )
    })
  }
})
