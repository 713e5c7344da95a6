import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import t from 'tap'
import { resumeDeletions } from '../../../src/modules/account-deletion/index.ts'
import { COMMIT, VERSION } from '../../../src/infra/system/version.ts'
import { buildTestApp, createPage, NOBODY, sendAs, signUp } from '../../helpers/app.ts'
import { pathOf, upload } from '../../helpers/assets.ts'
import { freePort, startPostgresServer, startRedisServer } from '../../helpers/servers.ts'
import { temporaryFolder } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

t.test('an idle service notices that PostgreSQL is away and back: health, metrics and one log line for each', async (t) => {
  const lines: Array<{ level: number, msg: string }> = []
  const postgres = await startPostgresServer(t)
  const app = await buildTestApp(
    t,
    { DATABASE_URL: postgres.url, UPLOADS_DIR: temporaryFolder(t) },
    pino({}, { write: (line: string) => lines.push(JSON.parse(line)) })
  )
  const metrics = async () => await app.metrics.metrics()
  const isUp = async (value: number) =>
    new RegExp(`^landfall_database_up ${value}$`, 'm').test(await metrics())
  t.ok(await isUp(1))
  t.same((await app.inject('/health/ready')).json(), { status: 'ok', database: 'ok', redis: 'not used' })
  await postgres.stop()
  await until(async () => await isUp(0))
  t.same((await app.inject('/health/live')).json(), { status: 'ok' })
  const unready = await app.inject('/health/ready')
  t.equal(unready.statusCode, 503)
  t.same(unready.json(), { errors: ['PostgreSQL cannot be reached'] })
  await resumeDeletions(app) // as it does in the background
  await postgres.start()
  await until(async () => await isUp(1))
  t.match(lines.filter(({ level, msg }) => level > 30 || msg.includes('PostgreSQL')), [
    { level: 40, msg: 'PostgreSQL is unavailable', reason: String },
    { level: 30, msg: 'PostgreSQL is available again' }
  ])
})

t.test('while PostgreSQL is down, cached reads go on and other requests get 503 with Retry-After', async (t) => {
  const postgres = await startPostgresServer(t)
  const app = await buildTestApp(t, {
    DATABASE_URL: postgres.url,
    UPLOADS_DIR: temporaryFolder(t),
    RATE_LIMIT_PUBLIC: '1000'
  })
  const owner = await signUp(app)
  const page = await createPage(app, owner)
  const read = async (publicId = page.public_id) => await app.inject(`/landing_pages/${publicId}`)
  const refresh = async () =>
    await sendAs(app, NOBODY, 'POST', '/auth/refresh', { refresh_token: owner.refresh_token })
  t.equal((await read()).statusCode, 200)
  const known = pathOf((await upload(app, owner, 'a,b', 'known.csv', 'text/csv')).json())
  const unknown = pathOf((await upload(app, owner, 'a,b', 'unknown.csv', 'text/csv')).json())
  await app.inject(known)
  await postgres.stop()
  const kept = (await app.inject(known)).headers
  t.match(kept, { 'content-disposition': /known\.csv/, 'cache-control': /immutable/ })
  const unnamed = { 'content-disposition': 'attachment', 'cache-control': 'no-cache' }
  t.match((await app.inject(unknown)).headers, unnamed, 'no cache keeps a download without its name')
  const signIn = { user: { email: owner.user.email, password: 'x' } }
  const refused = [
    await sendAs(app, owner, 'GET', '/auth/me'),
    await sendAs(app, NOBODY, 'POST', '/auth/sign_in', signIn),
    await refresh(),
    await sendAs(app, owner, 'POST', '/landing_pages', { current_data: {} }),
    await read('A'.repeat(22))
  ]
  for (const response of refused) {
    t.equal(response.statusCode, 503)
    t.equal(response.json().errors.length, 1)
  }
  for (let n = 0; n < 5; n++) {
    await sleep(300)
    t.equal((await read()).statusCode, 200, 'also after its lease of one second')
  }
  await postgres.start()
  t.equal((await sendAs(app, owner, 'GET', '/auth/me')).statusCode, 200)
  t.equal((await refresh()).statusCode, 200, 'the refresh token was not used up')
  t.equal((await read('A'.repeat(22))).statusCode, 404)
})

t.test('metrics are served on OPS_PORT and not on the public port', async (t) => {
  const port = await freePort()
  const redis = await startRedisServer(t)
  const app = await buildTestApp(t, { OPS_PORT: String(port), REDIS_URL: redis.url })
  t.equal((await app.inject('/metrics')).statusCode, 404)
  const metrics = async () => await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  t.match(await metrics(), /^landfall_limits_shared 1$/m)
  const labels = `version="${VERSION}",commit="${COMMIT ?? 'unknown'}",node_version="${process.version}"`
  t.match(await metrics(), `\nlandfall_build_info{${labels}} 1\n`)
  const responseTo = async (path: string, method = 'GET') =>
    await fetch(`http://127.0.0.1:${port}${path}`, { method })
  t.match(await (await responseTo('/metrics?module=x')).text(), /^landfall_limits_shared 1$/m, 'with a query')
  const head = await responseTo('/metrics', 'HEAD')
  t.equal(head.status, 200)
  t.match(head.headers.get('content-type'), /^text\/plain/)
  t.equal(await head.text(), '')
  const unknown = [['/metrics', 'POST'], ['/metricsx'], ['/metrics/'], ['/?/metrics']] as const
  for (const [path, method] of unknown) {
    t.equal((await responseTo(path, method)).status, 404, `${method} ${path}`)
  }
  t.match(await metrics(), /^process_resident_memory_bytes /m)
  await redis.stop()
  await until(async () => /^landfall_limits_shared 0$/m.test(await metrics()))
  t.equal((await fetch(`http://127.0.0.1:${port}/auth/me`)).status, 404)
})
