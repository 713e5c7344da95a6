import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { Owner } from '../../helpers/client.ts'
import { startAlertmanager, startPrometheus } from './monitoring.ts'
import { provide } from '../../shared/programs.ts'
import { claimRedis, freePort, startPostgresServer } from '../../helpers/servers.ts'
import { PROJECT, startService, temporaryFolder } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// The runner installs what is named here.
provide('prometheus')
provide('alertmanager')

t.test('an outage of PostgreSQL is one page for all replicas', async (t) => {
  const postgres = await startPostgresServer(t)
  const settings = {
    RATE_LIMIT_PUBLIC: '1000000',
    DATABASE_URL: postgres.url,
    REDIS_URL: await claimRedis(t),
    JWT_SECRET: 'a secret of the tests, 32 bytes and more',
    UPLOADS_DIR: temporaryFolder(t)
  }
  const opsPorts = [await freePort(), await freePort()]
  const urls: string[] = []
  for (const port of opsPorts) urls.push((await startService(t, { ...settings, OPS_PORT: String(port) })).url)
  const alertmanager = await startAlertmanager(t)
  const query = await startPrometheus(t, {
    ports: { '127.0.0.1:9400': opsPorts, '127.0.0.1:9093': [alertmanager.port] },
    isFast: true
  })
  await startLoad(t, urls)
  const pages = async () =>
    (await alertmanager.alerts()).filter(({ labels: { severity } }) => severity === 'page')
  await until(async () => (await query('increase(landfall_public_reads_total[5s]) > 20')).length >= 2)
  t.same(await pages(), [], 'a healthy service pages nobody')
  // Prometheus may know no replica in its first five seconds, which is a page.
  const earlier = alertmanager.pages.length

  await postgres.stop()
  const consequences = await until(async () => {
    const found = (await pages()).filter(({ labels }) => labels.alertname !== 'LandfallDatabaseUnavailable')
    const names = new Set(found.map(({ labels }) => labels.alertname))
    return names.has('LandfallPublicReadsFail') && names.has('LandfallManagementErrors') &&
      found.every(({ status }) => status.state !== 'unprocessed') && found
  }, 'the alerts about its consequences')
  for (const { labels, status } of consequences) {
    t.equal(status.state, 'suppressed', labels.alertname as string)
  }
  await until(() => alertmanager.pages.length > earlier, 'the page')

  await postgres.start()
  await until(async () => (await pages()).length === 0, 'the end of the alerts')
  t.same(
    [...new Set(alertmanager.pages.slice(earlier).map(({ groupLabels }) => groupLabels.alertname))],
    ['LandfallDatabaseUnavailable'],
    'its consequences end before it does'
  )
})

t.test('an outage of Redis hides the alerts that it causes, in its own installation only', async (t) => {
  const alertmanager = await startAlertmanager(t)
  const { groups } = parse(readFileSync(join(PROJECT, 'deploy/monitoring/prometheus-rules.yml'), 'utf8')) as {
    groups: { rules: { alert: string, labels: Record<string, string> }[] }[]
  }
  const rules = groups.flatMap(({ rules }) => rules)
    .filter(({ alert, labels }) => alert === 'LandfallRedisAway' || labels.depends_on === 'redis')
  t.equal(rules.length, 3)
  const alerts = rules.flatMap(({ alert, labels }) =>
    ['one', 'two'].map((cluster) => ({
      labels: { alertname: alert, job: 'landfall', instance: alert, cluster, ...labels }
    }))
  ).filter(({ labels }) => labels.cluster === 'one' || labels.alertname !== 'LandfallRedisAway')
  await alertmanager.send(alerts)
  const found = await until(async () => {
    const found = await alertmanager.alerts()
    return found.length === alerts.length && found.every(({ status }) => status.state !== 'unprocessed') &&
      found
  })
  for (const { labels: { alertname, cluster }, status } of found) {
    const isHidden = cluster === 'one' && alertname !== 'LandfallRedisAway'
    t.equal(status.state, isHidden ? 'suppressed' : 'active', `${alertname} of ${cluster}`)
  }
})

/** Reads pages that no cache has, and calls management routes, until the test ends. */
async function startLoad (t: Test, urls: readonly string[]): Promise<void> {
  const owner = await Owner.signUp(urls[0] as string)
  const ending = new AbortController()
  const loops = urls.map(async (url) => {
    for (let round = 0; !ending.signal.aborted; round++) {
      const id = String(round).padStart(22, 'A')
      await Promise.all([
        fetch(`${url}/landing_pages/${id}`).then(async (response) => await response.arrayBuffer()),
        owner.call('GET', `${url}/auth/me`)
      ])
      await sleep(50)
    }
  })
  t.teardown(async () => {
    ending.abort()
    await Promise.all(loops)
  })
}
