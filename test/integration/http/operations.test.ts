import { pino } from 'pino'
import t from 'tap'
import { resumeDeletions } from '../../../src/modules/account-deletion/index.ts'
import { COMMIT, VERSION } from '../../../src/infra/system/version.ts'
import { buildTestApp, signUp } from '../../helpers/app.ts'
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

t.test('while PostgreSQL is down, a download keeps its name if that is known, and no cache keeps one without it', async (t) => {
  const postgres = await startPostgresServer(t)
  const app = await buildTestApp(t, { DATABASE_URL: postgres.url, UPLOADS_DIR: temporaryFolder(t) })
  const owner = await signUp(app)
  const [known = '', unknown = ''] = await Promise
    .all(['known.csv', 'unknown.csv'].map(async (name) =>
      pathOf((await upload(app, owner, 'a,b', name, 'text/csv')).json())
    ))
  await app.inject(known)
  await postgres.stop()
  t.match((await app.inject(known)).headers, {
    'content-disposition': /known\.csv/,
    'cache-control': /immutable/
  })
  const unnamed = { 'content-disposition': 'attachment', 'cache-control': 'no-cache' }
  t.match((await app.inject(unknown)).headers, unnamed)
})

t.test('metrics are served on OPS_PORT only', async (t) => {
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
