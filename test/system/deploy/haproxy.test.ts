import t, { type Test } from 'tap'
import { testSettings } from '../../helpers/app.ts'
import { changedFile, startHaproxy } from '../../shared/balancer.ts'
import { call, checkConsoleOrigin, Owner } from '../../helpers/client.ts'
import { provide } from '../../shared/programs.ts'
import { connection, requestOf } from '../../helpers/raw.ts'
import { BEHIND_PROXY, checkReads, checkRollingRestart, checkSharedLimit,
  ORIGIN } from '../../helpers/behind-proxy.ts'
import { claimRedis, createProxy, freePort } from '../../helpers/servers.ts'
import { startService } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// Runs deploy/haproxy/haproxy.cfg with two replicas behind it.

const haproxy = provide('haproxy')

async function startBalancer (t: Test, ports: readonly number[], changes: Array<[string, string]> = []) {
  const port = await freePort()
  const config = changedFile('haproxy/haproxy.cfg', [
    ['bind :80\n', `bind 127.0.0.1:${port}\n`],
    ['  bind :::80 v6only', '  #'],
    ['127.0.0.1:3001', `127.0.0.1:${ports[0]}`],
    ['127.0.0.1:3002', `127.0.0.1:${ports[1]}`],
    // A busy machine must not look like a replica that is away.
    ['timeout connect 300ms', 'timeout connect 30s\n  timeout check 30s'],
    ['fall 2', 'fall 5'],
    ...changes
  ])
  return await startHaproxy(t, haproxy, config, port)
}

t.test('two replicas behind HAProxy', async (t) => {
  const settings = await testSettings(t)
  const database = await createProxy(t, settings.DATABASE_URL as string)
  const env = {
    ...settings,
    DATABASE_URL: database.url,
    REDIS_URL: await claimRedis(t),
    ...BEHIND_PROXY
  }
  const ports = [await freePort(), await freePort()]
  const start = async (index: number) => await startService(t, { ...env, PORT: String(ports[index]) })
  const replicas = [await start(0), await start(1)]
  // The tests send all requests from one address.
  const { url, log, errors } = await startBalancer(t, ports, [['gt 4000', 'gt 1000000'], [
    'gt 64',
    'gt 10000'
  ]])
  const site = { url, errors, owner: await Owner.signUp(url) }
  const isOf = (index: number) => ({ server }: { server?: unknown }) => server === `landfall-${index + 1}`

  t.test('both replicas count one limit per client and ignore a forged X-Forwarded-For', async (t) => {
    // On a busy machine, HAProxy's own checks may have found a replica too slow for a moment.
    await until(async () => {
      const before = log().length
      await Promise.all([1, 2, 3, 4].map(async () => await call('GET', `${url}/auth/me`)))
      return new Set(log().slice(before).map(({ server }) => server)).size === 2
    }, 'HAProxy uses both replicas')
    const path = await checkSharedLimit(t, site)
    const lines = () => log().filter((line) => line.path === path)
    await until(() => lines().length === 61, 'the requests are in the log, without their query')
    t.same([...new Set(lines().map(({ server }) => server))].sort(), ['landfall-1', 'landfall-2'])
    t.match(lines()[0], { address: /^127\.0\.0\.\d+$/, method: 'GET' })
  })

  t.test('only pages of the address of HAProxy may use the session of a browser', async (t) => {
    await checkConsoleOrigin(t, url)
  })

  t.test('the replicas restart one after the other without a failed request', async (t) => {
    await checkRollingRestart(t, site, async (index) => {
      t.equal(await replicas[index]?.end('SIGTERM'), 0)
      replicas[index] = await start(index)
      const before = log().filter(isOf(index)).length
      await until(() => log().filter(isOf(index)).length > before, `replica ${index} is used again`)
    })
  })

  t.test('reads succeed while one replica is killed', async (t) => {
    await checkReads(t, site, async () => {
      await replicas[0]?.end('SIGKILL')
      await until(() => /landfall-1 is DOWN/.test(errors()), 'HAProxy has noticed it')
      replicas[0] = await start(0)
    })
  })

  t.test('cached documents are served while no replica is ready', async (t) => {
    const { public_id: publicId } = await site.owner.createPage(url, '{"v":1}')
    for (const port of ports) await call('GET', `http://127.0.0.1:${port}/landing_pages/${publicId}`)
    await database.refuse()
    await until(async () => (await call('GET', `${url}/health/ready`)).status === 503, 'no replica is ready')
    t.match(await call('GET', `${url}/landing_pages/${publicId}`, { headers: ORIGIN }), {
      status: 200,
      text: '{"v":1}'
    })
    await database.restore()
    await until(async () => (await call('GET', `${url}/health/ready`)).status === 200, 'they are ready again')
  })

  t.test('HAProxy limits each client and has errors like those of the service', async (t) => {
    const [port = 0] = ports
    const json = 'application/json; charset=utf-8'
    /** Asks until the status is as wanted; `prepare` runs before each time. */
    const refusal = async (url: string, status: number, prepare = () => {}) =>
      await until(async () => {
        prepare()
        const { headers, text, ...response } = await call('GET', `${url}/health/live`)
        return response.status === status &&
          [headers.get('content-type'), headers.get('retry-after'), JSON.parse(text).errors[0]]
      }, `a ${status}`)

    const crowded = await startBalancer(t, [port, port], [['gt 64', 'gt 3']])
    const wait = () => {
      connection(t, crowded.url)
        .send(requestOf(
          '/auth/sign_in',
          { 'Content-Type': 'application/json', 'Content-Length': '9' },
          'POST'
        ))
    }
    t.match(await refusal(crowded.url, 503, wait), [json, '1', /at once/])

    const busy = await startBalancer(t, [port, port], [['gt 4000', 'gt 20']])
    t.match(await refusal(busy.url, 429), [json, '10', /^Too many requests/])

    const nobody = await freePort()
    const alone = await startBalancer(t, [nobody, nobody])
    t.match(await refusal(alone.url, 503), [json, '1', /^The service is temporarily unavailable/])
  })
})
