import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { testSettings } from '../../helpers/app.ts'
import { ask, call, Owner } from '../../helpers/client.ts'
import { startCdn } from '../../helpers/cdn.ts'
import { startMailServer } from '../../helpers/mail-server.ts'
import { startPrometheus } from './monitoring.ts'
import { provide } from '../../shared/programs.ts'
import { Readers } from '../../helpers/readers.ts'
import { claimRedis, freePort, listen } from '../../helpers/servers.ts'
import { PROJECT, startService, temporaryFolder } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// Compares the dashboard, the alerts and the documentation with the series that a real Prometheus scrapes
// from a service under load.

const prometheus = provide('prometheus')
const RULES = readFileSync(join(PROJECT, 'deploy/monitoring/prometheus-rules.yml'), 'utf8')
const DOCUMENTATION = readFileSync(join(PROJECT, 'docs/metrics.md'), 'utf8')
const dashboard = JSON
  .parse(readFileSync(join(PROJECT, 'deploy/monitoring/grafana-dashboard.json'), 'utf8')) as {
    panels: Panel[]
    templating: { list: { name: string, definition?: string }[] }
  }

interface Panel {
  readonly title: string
  readonly type: string
  readonly targets?: readonly { readonly expr: string }[]
}

t.test('Prometheus scrapes a service under load', async (t) => {
  const opsPort = await freePort()
  const { url } = await startService(t, {
    OPS_PORT: String(opsPort),
    WEB_CONCURRENCY: '2',
    RATE_LIMIT_PUBLIC: '100000',
    ...await testSettings(t),
    REDIS_URL: await claimRedis(t),
    ...(await startMailServer(t)).settings,
    CDN_PURGE: 'varnish',
    CDN_PURGE_URL: (await startCdn(t)).url,
    BASE_URL: 'http://localhost'
  })
  const scrape = async () => await (await fetch(`http://127.0.0.1:${opsPort}/metrics`)).text()
  await until(async () => /^landfall_workers 2$/m.test(await scrape()))
  const nodePort = await serveBackupTime(t)
  const query = await startPrometheus(t, { '127.0.0.1:9400': opsPort, '127.0.0.1:9100': nodePort })
  await startLoad(t, url)
  await until(async () => (await query('landfall_public_reads_total')).length > 0)
  const metrics = namesIn(await scrape())

  t.test('every query of the dashboard returns data', async (t) => {
    const panels = dashboard.panels.filter(({ type }) => type !== 'row')
    t.ok(panels.length > 30)
    for (const { title, targets = [] } of panels) {
      for (const { expr } of targets) {
        t.match(expr, /\{job=~"\$job",instance=~"\$instance"/, `${title}: is limited to the chosen replicas`)
        const queried = expr.replaceAll(/\$(job|instance)\b/g, '.+').replaceAll('$__rate_interval', '30s')
        // A kind of request may come late.
        await until(
          async () => (await query(queried)).some((value) => !Number.isNaN(value)),
          `${title}: ${expr}`
        )
      }
    }
    for (const { definition } of dashboard.templating.list) {
      const metric = /^label_values\((\w+)/.exec(definition ?? '')?.[1]
      if (metric !== undefined) t.ok(metrics.has(metric), metric)
    }
  })

  t.test('every series that an alert names exists, and a healthy service fires no alert', async (t) => {
    const selectors = [...RULES.matchAll(/\b((?:landfall|nodejs|process)_\w+|up)(\{[^}]*\})?/g)].map((
      [selector]
    ) => selector)
    t.ok(selectors.length > 20)
    for (const selector of new Set(selectors)) {
      t.ok((await query(selector)).length > 0, selector)
    }
    t.same(await query('ALERTS'), [])
    t.same(await query('absent(up == 1)'), [])
  })

  t.test('docs/metrics.md lists exactly the metrics that exist', async (t) => {
    const documented = new Set([...DOCUMENTATION.matchAll(/^\| (`\w+`(?:, `\w+`)*) \|.*\|.*\|$/gm)]
      .flatMap(([, names = '']) => [...names.matchAll(/`([a-z]\w+)`/g)].map(([, name]) => name as string)))
    documented.delete('process_start_time_seconds') // doesn't exist with several workers
    for (const name of metrics.keys()) t.ok(documented.has(name), `${name} has a line in docs/metrics.md`)
    for (const name of documented) t.ok(metrics.has(name), `${name} of docs/metrics.md is on /metrics`)
    const alerts = [...RULES.matchAll(/- alert: (\w+)/g)].map(([, name]) => name)
    t.same(
      [...DOCUMENTATION.matchAll(/^### (Landfall\w+)$/gm)].map(([, name]) => name),
      alerts,
      'the order is the same'
    )
    for (const [, anchor = ''] of RULES.matchAll(/runbook: docs\/metrics\.md#(\w+)/g)) {
      t.ok(alerts.some((name) => name?.toLowerCase() === anchor), anchor)
    }
  })

  t.test('names and help follow the conventions of Prometheus', async (t) => {
    const promtool = join(dirname(prometheus), 'promtool')
    t.same(execFileSync(promtool, ['check', 'metrics'], { input: await scrape(), encoding: 'utf8' }), '')
    for (const [name, type] of metrics) {
      if (!name.startsWith('landfall_')) continue
      t.equal(name.endsWith('_total'), type === 'counter', name)
      if (type === 'histogram') t.match(name, /_seconds$/)
    }
  })
})

/** Returns the types of all metrics by name. */
const namesIn = (text: string): Map<string, string> =>
  new Map([...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map((
    [, name, type]
  ) => [name as string, type as string]))

/** Runs the commands of docs/backup.md, and serves their file as node_exporter does. */
async function serveBackupTime (t: Test): Promise<number> {
  const folder = temporaryFolder(t)
  const [, commands = ''] = /^## Alert on old backups\n[\s\S]*?^```sh\n([\s\S]*?)^```$/m
    .exec(readFileSync(join(PROJECT, 'docs/backup.md'), 'utf8')) ?? []
  execFileSync('sh', ['-eu', '-c', commands], { env: { ...process.env, TEXTFILES: folder } })
  const server = createServer((_, response) => response.end(readFileSync(join(folder, 'landfall.prom'))))
  return await listen(t, server)
}

/** Sends requests of all kinds until the test ends. */
async function startLoad (t: Test, url: string): Promise<void> {
  const owner = await Owner.signUp(url)
  const page = await owner.createPage(url, JSON.stringify({ text: 'hello '.repeat(1000) }))
  const readers = new Readers(t, {
    urls: [url],
    publicIds: [page.public_id],
    intervalMs: 20,
    headers: { 'accept-encoding': 'br' }
  })
  const ending = new AbortController()
  const loop = (async () => {
    for (let round = 0; !ending.signal.aborted; round++) {
      // After a write of other bytes the other worker loads the document at its next read.
      await owner.update(url, page.id, JSON.stringify({ round, text: 'again '.repeat(1000) }))
      // The workers accept new connections in turn.
      for (let n = 0; n < 2; n++) await ask(url, `/landing_pages/${page.public_id}`)
      await owner.upload(url, Buffer.from('hello'))
      await call('GET', `${url}/landing_pages/${'A'.repeat(22)}`)
      await sleep(100)
    }
  })()
  t.teardown(async () => {
    ending.abort()
    await loop
    await readers.stop()
  })
}
