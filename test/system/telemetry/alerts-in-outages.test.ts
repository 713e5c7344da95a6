import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { promtool, startAlertmanager } from './monitoring.ts'
import { provide } from '../../shared/programs.ts'
import { PROJECT, temporaryFolder } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// Which alerts an outage of PostgreSQL sends, from its beginning until long after it. promtool evaluates the
// rules for the series that two replicas under load would have, and a third one that restarts meanwhile.

// The runner installs what is named here.
provide('prometheus')
provide('alertmanager')

const RULES = join(PROJECT, 'deploy/monitoring/prometheus-rules.yml')
const STEP_S = 15
const BEGIN_S = 10 * 60
const AFTER_S = 50 * 60
const READS = 'landfall_public_reads_total'
const REQUESTS = 'landfall_http_request_duration_seconds'
const STATEMENTS = 'landfall_database_statement_duration_seconds_count'

/** Returns what promtool reads: a value for each step. */
function series (minutes: number) {
  const steps = (BEGIN_S + minutes * 60 + AFTER_S) / STEP_S
  const isAway = (step: number) => step * STEP_S >= BEGIN_S && step * STEP_S < BEGIN_S + minutes * 60
  const values = (valueOf: (step: number) => number) =>
    Array.from({ length: steps }, (_, step) => valueOf(step))
  const counter = (perStep: (step: number) => number) => {
    let sum = 0
    return values((step) => {
      sum += perStep(step)
      return sum
    })
  }
  const always = counter(() => 30)
  const failures = counter((step) => isAway(step) ? 30 : 0)
  const successes = counter((step) => isAway(step) ? 0 : 30)
  const ofReplica: [name: string, labels: string, values: number[]][] = [
    ['up', '', values(() => 1)],
    ['landfall_database_up', '', values((step) => isAway(step) ? 0 : 1)],
    ['landfall_database_connection_wait_seconds_count', 'result="unavailable"', failures],
    [STATEMENTS, 'result="unavailable"', values(() => 0)],
    [STATEMENTS, 'result="ok"', successes],
    [READS, 'status="503",source="none"', failures],
    [READS, 'status="200",source="stale"', failures],
    [READS, 'status="200",source="process"', always],
    [`${REQUESTS}_count`, 'route="/assets",status="5xx"', failures],
    [`${REQUESTS}_count`, 'route="/assets",status="2xx"', successes],
    [`${REQUESTS}_bucket`, 'route="/auth/me",le="1"', successes],
    [`${REQUESTS}_bucket`, 'route="/auth/me",le="+Inf"', always],
    [`${REQUESTS}_count`, 'route="/auth/me",status="2xx"', always],
    ['landfall_backup_last_success_timestamp_seconds', '', values(() => 0)]
  ]
  return [
    ...['one', 'two'].flatMap((instance) =>
      ofReplica.map(([name, labels, values]) => ({
        series: `${name}{job="landfall",instance="${instance}"${labels === '' ? '' : `,${labels}`}}`,
        values: values.join(' ')
      }))
    ),
    {
      series: 'up{job="landfall",instance="restarting"}',
      values: values((step) => isAway(step) && step * STEP_S >= BEGIN_S + 5 * 60 ? 0 : 1).join(' ')
    }
  ]
}

const OUTAGE = 'ALERTS{alertstate="firing",alertname="LandfallDatabaseUnavailable"}'
/** What Alertmanager sends beside it. */
const OTHERS = `ALERTS{alertstate="firing",alertname!="LandfallDatabaseUnavailable"}
  unless on (job, depends_on) label_replace(${OUTAGE}, "depends_on", "postgresql", "", "")`
const names = (expression: string) => `count by (alertname) (${expression})`

/** Runs promtool with what the expressions return at these times. */
function check (minutes: number, expected: Record<string, Record<string, readonly string[]>>): string {
  const folder = temporaryFolder(t)
  const file = join(folder, 'outage.yml')
  writeFileSync(
    file,
    JSON.stringify({
      rule_files: [RULES],
      evaluation_interval: `${STEP_S}s`,
      tests: [{
        interval: `${STEP_S}s`,
        input_series: series(minutes),
        promql_expr_test: Object.entries(expected).flatMap(([expr, times]) =>
          Object.entries(times).map(([time, alerts]) => ({
            expr,
            eval_time: time,
            exp_samples: alerts.map((alert) => ({ labels: `{alertname="${alert}"}`, value: 2 }))
          }))
        )
      }]
    })
  )
  return promtool('test', 'rules', file)
}

/** Every step of the test, at which nothing is sent. */
const nothingAtAnyTime = (minutes: number) =>
  Object.fromEntries(Array.from(
    { length: (BEGIN_S + minutes * 60 + AFTER_S) / STEP_S },
    (_, step): [string, readonly string[]] => [`${step * STEP_S}s`, []]
  ))

t.test('an outage of two minutes sends nothing', async (t) => {
  for (const minutes of [1, 2]) {
    t.match(check(minutes, { [names('ALERTS{alertstate="firing"}')]: nothingAtAnyTime(minutes) }), /SUCCESS/)
  }
})

t.test('a longer outage is one alert, also after it', async (t) => {
  for (const minutes of [3, 5, 15, 45]) {
    t.match(check(minutes, { [names(OTHERS)]: nothingAtAnyTime(minutes) }), /SUCCESS/, `${minutes} minutes`)
  }
  const outage = ['LandfallDatabaseUnavailable']
  t.match(
    check(15, {
      [names(OUTAGE)]: { '13m': [], '15m': outage, '25m': outage, '41m': outage, '43m': [] },
      [names('ALERTS{alertstate="firing",depends_on="postgresql",severity="page",instance!="restarting"}')]: {
        '23m': ['LandfallManagementErrors', 'LandfallPublicReadsFail', 'LandfallStaleReads'],
        '31m': []
      },
      [`2 * ${names('ALERTS{alertstate="firing",alertname="LandfallDown"}')}`]: { '23m': ['LandfallDown'] }
    }),
    /SUCCESS/
  )
})

t.test('an outage is one page for all replicas, and hides what it causes in its own installation only', async (t) => {
  const alertmanager = await startAlertmanager(t)
  const { groups } = parse(readFileSync(RULES, 'utf8')) as {
    groups: { rules: { alert: string, labels: Record<string, string> }[] }[]
  }
  const rules = groups.flatMap(({ rules }) => rules)
  const outages = { LandfallDatabaseUnavailable: 'postgresql', LandfallRedisAway: 'redis' }
  for (const [outage, cause] of Object.entries(outages)) {
    const related = rules.filter(({ alert, labels }) => alert === outage || labels.depends_on === cause)
    t.ok(related.length > 2)
    const alertsOf = (cluster: string, rules: typeof related) =>
      rules.flatMap(({ alert, labels }) =>
        ['a', 'b'].map((replica) => ({
          labels: { alertname: alert, job: cause, instance: `${replica} of ${cluster}`, cluster, ...labels }
        }))
      )
    // Each of the others hides its weaker form, "Some…", too.
    const others = related.filter(({ alert }) => alert !== outage && !alert.startsWith('LandfallSome'))
    const alerts = [...alertsOf('one', related), ...alertsOf('two', others)]
    await alertmanager.send(alerts)
    const found = await until(async () => {
      const found = (await alertmanager.alerts()).filter(({ labels }) => labels.job === cause)
      return found.length === alerts.length && found.every(({ status }) => status.state !== 'unprocessed') &&
        found
    }, 'Alertmanager has looked at all alerts')
    for (const { labels: { alertname, cluster }, status } of found) {
      const isHidden = cluster === 'one' && alertname !== outage
      t.equal(status.state, isHidden ? 'suppressed' : 'active', `${alertname} of ${cluster}`)
    }
    const pages = () =>
      alertmanager.pages.filter(({ groupLabels: { job, cluster } }) => job === cause && cluster === 'one')
    await until(() => pages().length > 0, 'the page')
    t.same(pages().map(({ groupLabels }) => groupLabels.alertname), [outage])
  }
})
