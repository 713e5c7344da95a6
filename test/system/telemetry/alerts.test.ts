import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { promtool, startAlertmanager } from './monitoring.ts'
import { provide } from '../../shared/programs.ts'
import { PROJECT, temporaryFolder } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// Tests the alerts with promtool on invented series: each fires for the faulty replica after its `for` time,
// and not for a healthy replica, nor for a fault in a quiet service that needs nobody at once.

const RULES = join(PROJECT, 'deploy/monitoring/prometheus-rules.yml')

interface Case {
  readonly alert: string
  /** Minutes after the fault at which the alert must not fire yet, and at which it must. */
  readonly minutes: readonly [silent: number, firing: number]
  /** Whether the alert is about all replicas together; `good` is then tested without `bad`. */
  readonly isOverall: boolean
  /** Series of the faulty replica, and of a healthy one. */
  readonly bad: readonly string[]
  readonly good: readonly string[]
}

/**
 * Each alert with its minutes and series, in the notation of promtool, with a value per minute: `0+6x60`
 * grows by 6 each minute. A further case of an alert is another fault that it must show, or what must wake
 * nobody although it is not quite healthy; it says only what is different.
 */
const CASES = `
LandfallDown 0 2
  bad up{job="landfall"} 0x60
  good up{job="landfall"} 1x60; up{job="other"} 0x60
LandfallAbsent 4 6 overall
  bad up{job="other"} 1x60
  good up{job="landfall"} 0x60
LandfallPublicReadsFail 5 9
  bad landfall_public_reads_total{source="none",status="503"} 0+3x60
  bad landfall_public_reads_total{source="process",status="200"} 0+97x60
  good landfall_public_reads_total{source="none",status="503"} 0+1x60
  good landfall_public_reads_total{source="process",status="200"} 0+199x60
LandfallSomeReadsFail 38 42
  bad landfall_public_reads_total{source="none",status="503"} 0x9 1x9 2x9 3x9 4x9 5x9
  good landfall_public_reads_total{source="none",status="503"} 0x9 1x9 2x9 3x9 4x9 5x9
  good landfall_public_reads_total{source="process",status="200"} 0+20x60
LandfallReadsRefused 4 9
  bad landfall_public_reads_total{source="none",status="429"} 0+30x60
  bad landfall_public_reads_total{source="process",status="200"} 0+70x60
  good landfall_public_reads_total{source="none",status="429"} 0+10x60
  good landfall_public_reads_total{source="process",status="200"} 0+90x60
LandfallStaleReads 5 9
  bad landfall_public_reads_total{source="stale",status="200"} 0+3x60
  good landfall_public_reads_total{source="stale",status="200"} 0x5 9x60
LandfallManagementErrors 7 12
  bad landfall_http_request_duration_seconds_count{route="/assets",status="5xx"} 0+6x60
  bad landfall_http_request_duration_seconds_count{route="/assets",status="2xx"} 0+94x60
  good landfall_http_request_duration_seconds_count{route="/assets",status="5xx"} 0+4x60
  good landfall_http_request_duration_seconds_count{route="/assets",status="2xx"} 0+96x60
  good landfall_http_request_duration_seconds_count{route="/health/ready",status="5xx"} 0+90x60
LandfallSomeRequestsFail 38 42
  bad landfall_http_request_duration_seconds_count{route="/assets",status="5xx"} 0x9 1x9 2x9 3x9 4x9 5x9
  good landfall_http_request_duration_seconds_count{route="/assets",status="5xx"} 0x9 1x9 2x9 3x9 4x9 5x9
  good landfall_http_request_duration_seconds_count{route="/assets",status="2xx"} 0+4x60
  good landfall_http_request_duration_seconds_count{route="/health/ready",status="5xx"} 0+90x60
LandfallManagementSlow 8 14
  bad landfall_http_request_duration_seconds_count{route="/auth/me"} 0+100x60
  bad landfall_http_request_duration_seconds_bucket{route="/auth/me",le="1"} 0+90x60
  bad landfall_http_request_duration_seconds_bucket{route="/auth/me",le="2.5"} 0+100x60
  bad landfall_http_request_duration_seconds_bucket{route="/auth/me",le="+Inf"} 0+100x60
  good landfall_http_request_duration_seconds_count{route="/auth/me"} 0+100x60
  good landfall_http_request_duration_seconds_bucket{route="/auth/me",le="1"} 0+96x60
  good landfall_http_request_duration_seconds_bucket{route="/auth/me",le="2.5"} 0+100x60
  good landfall_http_request_duration_seconds_bucket{route="/auth/me",le="+Inf"} 0+100x60
LandfallDatabaseUnavailable 5 8
  bad landfall_database_connection_wait_seconds_count{result="unavailable"} 0+3x60
  bad landfall_database_statement_duration_seconds_count{result="unavailable"} 0x60
  good landfall_database_connection_wait_seconds_count{result="unavailable"} 7x60
  good landfall_database_statement_duration_seconds_count{result="unavailable"} 7x60
  good landfall_database_statement_duration_seconds_count{result="error"} 0+9x60; landfall_database_up 1x60
LandfallDatabasePoolFull 4 6
  bad landfall_database_waiting 1x60
  good landfall_database_waiting 9 9 9 0 9 9 9 0 9 9 9 0 9 9 9 0
LandfallRedisAway 0 2
  bad landfall_limits_shared 0x60
  good landfall_limits_shared 1x60
LandfallRedisUnsteady 2 8
  bad landfall_redis_outages_total 0 1 2 3 4 5 6x60
  good landfall_redis_outages_total 0 1 2 2x60
LandfallWritesUnheard 0 2
  bad landfall_invalidation_channel_up 0x60; landfall_limits_shared 1x60
  good landfall_invalidation_channel_up 1x60; landfall_limits_shared 1x60
  good landfall_invalidation_channel_up{redis="down"} 0x60; landfall_limits_shared{redis="down"} 0x60
# One read of nearly every client asks Redis, because the processes are new.
LandfallLeaseStorm 3 6 overall
  bad landfall_leases_total 0+6000x60; landfall_public_reads_total{source="process",status="200"} 0+120x60
  good landfall_leases_total 0+6000x60; landfall_public_reads_total{source="process",status="200"} 0+6000x60
LandfallEventLoopLate 4 6
  bad nodejs_eventloop_lag_p99_seconds{job="landfall"} 0.3x60
  good nodejs_eventloop_lag_p99_seconds{job="landfall"} 0.02x60
  good nodejs_eventloop_lag_p99_seconds{job="other"} 3x60
LandfallMemoryNearLimit 9 11
  bad process_resident_memory_bytes{job="landfall"} 480000000x60
  bad landfall_memory_limit_bytes{job="landfall"} 512000000x60
  good process_resident_memory_bytes{job="landfall"} 440000000x60
  good landfall_memory_limit_bytes{job="landfall"} 512000000x60
LandfallSheds 4 9
  bad landfall_requests_shed_total{reason="rss"} 0+2x60
  good landfall_requests_shed_total{reason="rss"} 0x5 9x60
LandfallConnectionsNearLimit 4 6
  bad landfall_connections 81x60; landfall_connections_max 100x60
  good landfall_connections 79x60; landfall_connections_max 100x60
  good landfall_connections{of="any number"} 9000x60; landfall_connections_max{of="any number"} 0x60
LandfallConnectionsRefused 4 9
  bad landfall_connections_refused_total 0+2x60
  good landfall_connections_refused_total 0x5 9x60
LandfallHashQueueFull 5 10
  bad landfall_password_hashes_refused_total 0x5 0+2x60
  good landfall_password_hashes_refused_total 0x5 3x60
LandfallSignInsFail 9 22 overall
  bad landfall_sign_in_failures_total 0+40x60; landfall_auth_throttled_total{limit="sign_in"} 0+40x60
  good landfall_sign_in_failures_total 0+40x60; landfall_auth_throttled_total{limit="sign_in"} 0x60
  good landfall_auth_throttled_total{limit="refresh"} 0+90x60
LandfallTokensReplayed 2 30 overall
  bad landfall_sessions_total{event="replayed"} 0+1x60
  good landfall_sessions_total{event="replayed"} 0 1 2 2x60; landfall_sessions_total{event="begun"} 0+9x60
LandfallMailsDelayed 14 17 overall
  bad landfall_oldest_mail_age_seconds 0+60x60; landfall_mails_waiting 3x60
  good landfall_oldest_mail_age_seconds 500x60; landfall_mails_waiting 99x60
LandfallSomeMailsDelayed 65 67 overall
  bad landfall_oldest_mail_age_seconds 0+60x90; landfall_mails_waiting 1x90
  good landfall_oldest_mail_age_seconds 3500x90; landfall_mails_waiting 1x90
LandfallMailsGivenUp 5 8 overall
  bad landfall_mails_given_up_total{kind="password_reset"} 0x5 0+1x60
  good landfall_mails_given_up_total{kind="password_reset"} 3x60
LandfallSchedulesLate 6 9 overall
  bad landfall_schedules_late_seconds 0 0 5+15x60
  good landfall_schedules_late_seconds 0 5 50 59 0x60
LandfallWebhooksDelayed 7 9 overall
  bad landfall_oldest_overdue_message_seconds 0+60x60
  good landfall_oldest_overdue_message_seconds 110x60
LandfallWebhooksPaused 5 8 overall
  bad landfall_webhooks_paused_total{reason="failing"} 0x5 1x60
  good landfall_webhooks_paused_total{reason="gone"} 3x60
LandfallCdnNotPurged 6 8 overall
  bad landfall_oldest_outstanding_cdn_purge_seconds 0+60x60
  good landfall_oldest_outstanding_cdn_purge_seconds 290x60
LandfallUploadsFail 6 12
  bad landfall_uploads_total{result="disk_full"} 0+1x60
  good landfall_uploads_total{result="failed"} 0+1x60; landfall_uploads_total{result="stored"} 0+30x60
LandfallSomeUploadsFail 5 8
  bad landfall_uploads_total{result="failed"} 0x5 1x60
  good landfall_uploads_total{result="disk_full"} 3x60; landfall_uploads_total{result="too_large"} 0+9x60
  good landfall_uploads_total{result="stored"} 0+9x60
LandfallVariantsFail 1 20 overall
  bad landfall_variants_total{result="failed"} 0+1x60
  good landfall_variants_total{result="failed"} 0x5 3x60; landfall_variants_total{result="refused"} 0+9x60
  good landfall_variants_total{result="made"} 0+9x60
LandfallVariantsUnavailable 1 20 overall
  bad landfall_variants_total{result="unavailable"} 0+1x60
  good landfall_variants_total{result="unavailable"} 0+1x60; landfall_variants_total{result="made"} 0+2x60
LandfallVariantsQueued 4 6
  bad landfall_variants_queued 60x60
  good landfall_variants_queued 90 90 90 0 90 90 90 0 40x60
# Time begins at 0 in promtool, so a timestamp of 0 is a cleanup at the beginning.
LandfallSweepOverdue 181 200
  bad landfall_sweep_last_success_timestamp_seconds 0x300
  good landfall_sweep_last_success_timestamp_seconds 0+60x300
LandfallReadReportsFail 14 20
  bad landfall_read_reports_total{result="failed"} 0x5 0+6x60
  good landfall_read_reports_total{result="failed"} 3x60; landfall_read_reports_total{result="ok"} 0+6x60
LandfallReadsUncounted 5 8
  bad landfall_counted_reads_total{result="dropped"} 0x5 0+9x60
  good landfall_counted_reads_total{result="dropped"} 3x60
  good landfall_counted_reads_total{result="stored"} 0+9x60
# Good: one of two cleanups fails.
LandfallPageCleanupsFail 150 160 overall
  bad landfall_page_cleanups_total{result="failed"} 0x60 1x60 2x60 3x60 4x60
  bad landfall_page_cleanups_total{result="ok"} 0x300
  good landfall_page_cleanups_total{result="failed"} 0x60 1x120 2x120
  good landfall_page_cleanups_total{result="ok"} 0x120 1x120 2x60
# Good: a deletion that was interrupted is finished the next time.
LandfallAccountDeletionsUnfinished 29 31
  bad landfall_unfinished_account_deletions 1x60
  good landfall_unfinished_account_deletions 0x5 1x5 0x50
LandfallWorkersRestart 1 7
  bad landfall_worker_restarts_total 0 1 2 3 4 4x60
  good landfall_worker_restarts_total 0 1 1x60
# Time begins at 0 in promtool, so the newest backup is 25 hours old at first.
LandfallBackupOld 118 122
  bad landfall_backup_last_success_timestamp_seconds -90000x180
  good landfall_backup_last_success_timestamp_seconds -3600x180

# PostgreSQL is unreachable while the service is idle.
LandfallDatabaseUnavailable 3 5
  bad landfall_database_up 0x60
# A slow statement now and then.
LandfallDatabaseUnavailable
  good landfall_database_connection_wait_seconds_count{result="unavailable"} 0x60
  good landfall_database_statement_duration_seconds_count{result="unavailable"} 0+1x60
  good landfall_database_statement_duration_seconds_count{result="ok"} 0+20x60
# All targets have vanished, and with them every series.
LandfallAbsent
  bad
# One client reads too often.
LandfallReadsRefused
  good landfall_public_reads_total{source="none",status="429"} 0+30x60
# One 503 in each of many quiet minutes.
LandfallPublicReadsFail
  good landfall_public_reads_total{source="none",status="503"} 0+1x60
  good landfall_public_reads_total{source="process",status="200"} 0+1x60
# A burst of 503 in one minute.
LandfallPublicReadsFail
  good landfall_public_reads_total{source="none",status="503"} 0x5 90x60
  good landfall_public_reads_total{source="process",status="200"} 0+9x60
# Two of four requests, every four minutes; and nine of nine, once.
LandfallManagementErrors
  good landfall_http_request_duration_seconds_count{route="/assets",status="5xx"} 0+0.5x60
  good landfall_http_request_duration_seconds_count{route="/assets",status="2xx"} 0+0.5x60
LandfallManagementErrors
  good landfall_http_request_duration_seconds_count{route="/assets",status="5xx"} 0x5 9x60
# All of the few requests are slow.
LandfallManagementSlow
  good landfall_http_request_duration_seconds_count{route="/auth/me"} 0+2x60
  good landfall_http_request_duration_seconds_bucket{route="/auth/me",le="1"} 0x60
  good landfall_http_request_duration_seconds_bucket{route="/auth/me",le="2.5"} 0+2x60
  good landfall_http_request_duration_seconds_bucket{route="/auth/me",le="+Inf"} 0+2x60
# A client sends a failed upload again, twice.
LandfallUploadsFail
  good landfall_uploads_total{result="failed"} 0x5 3x60
# The server of one address refuses its mail for now.
LandfallMailsDelayed
  good landfall_oldest_mail_age_seconds 0+60x60; landfall_mails_waiting 1x60
# No backup has ever told its time.
LandfallBackupOld 59 61 overall
  bad up 1x60
# A single client asks Redis often.
LandfallLeaseStorm
  good landfall_leases_total 0+600x60; landfall_public_reads_total{status="200"} 0+60x60
`

function readCases (text: string): Case[] {
  const cases = new Map<string, Case>()
  return text.replace(/^#.*\n/gm, '').split(/\n(?=\w)/).map((lines) => {
    const [head = '', ...rest] = lines.trim().split('\n')
    const [alert = '', silent, firing, overall] = head.split(' ')
    const seriesOf = (what: 'bad' | 'good') => {
      const found = rest.filter((line) => line.startsWith(`  ${what}`))
      const all = found.flatMap((line) => line.slice(what.length + 2).trim().split('; ')).filter(Boolean)
      return found.length === 0 ? {} : { [what]: all }
    }
    const it = {
      ...cases.get(alert),
      ...silent !== undefined &&
        { minutes: [Number(silent), Number(firing)], isOverall: overall !== undefined },
      alert,
      ...seriesOf('bad'),
      ...seriesOf('good')
    } as Case
    if (!cases.has(alert)) cases.set(alert, it)
    return it
  })
}

const ALL = readCases(CASES.trim())

t.test('Prometheus accepts the rules', async (t) => {
  t.match(promtool('check', 'rules', RULES), /SUCCESS/)
  t.match(promtool('check', 'config', join(PROJECT, 'deploy/monitoring/prometheus.yml')), /SUCCESS/)
})

t.test('Alertmanager accepts its example', async (t) => {
  const amtool = join(dirname(provide('alertmanager')), 'amtool')
  const file = join(PROJECT, 'deploy/monitoring/alertmanager.yml')
  t.match(execFileSync(amtool, ['check-config', file], { encoding: 'utf8' }), /SUCCESS/)
})

t.test('every alert has a test case', async (t) => {
  const names = [...readFileSync(RULES, 'utf8').matchAll(/- alert: (\w+)/g)].map(([, name]) => name)
  t.same(names.sort(), [...new Set(ALL.map(({ alert }) => alert))].sort())
})

t.test('every alert fires for the faulty replica and for no other', async (t) => {
  const tests = ALL.flatMap(({ alert, bad, good, minutes: [silentAt, firesAt], isOverall }) => {
    const firing = (minutes: number, instances: readonly string[]) => ({
      expr: `count by (alertname${
        isOverall ? '' : ', instance'
      }) (ALERTS{alertstate="firing",alertname="${alert}"})`,
      eval_time: `${minutes}m`,
      exp_samples: instances.map((instance) => ({
        labels: `{alertname="${alert}"${isOverall ? '' : `,instance="${instance}"`}}`,
        value: 1
      }))
    })
    const badSeries = series(bad, 'bad')
    const goodSeries = series(good, 'good')
    return [
      {
        interval: '1m',
        input_series: isOverall ? badSeries : [...badSeries, ...goodSeries],
        promql_expr_test: [firing(silentAt, []), firing(firesAt, ['bad'])]
      },
      {
        interval: '1m',
        input_series: goodSeries,
        promql_expr_test: [firing(firesAt, []), firing(firesAt + 20, [])]
      }
    ]
  })
  const file = join(temporaryFolder(t), 'alerts.yml')
  writeFileSync(file, JSON.stringify({ rule_files: [RULES], evaluation_interval: '1m', tests }))
  const said = promtool('test', 'rules', file)
  // promtool names the alert of a failure in its expression.
  for (const { alert } of ALL) t.notOk(said.includes(alert), `${alert}\n${said}`)
  t.match(said, /SUCCESS/)
})

function series (all: readonly string[], instance: string) {
  return all.map((one) => {
    const [, name = '', labels, values] = /^(\w+)(?:\{(.*)\})? (.*)$/.exec(one) ?? []
    return { series: `${name}{${labels === undefined ? '' : `${labels},`}instance="${instance}"}`, values }
  })
}

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
