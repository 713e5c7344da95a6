import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loadConfig } from '../../../src/config.ts'
import { testSettings } from '../../helpers/app.ts'
import { provide } from '../../helpers/programs.ts'
import { claimRedis } from '../../helpers/servers.ts'
import { PROJECT, startService, temporaryFolder } from '../../helpers/service.ts'

// Checks deploy/systemd/landfall.service, and runs its command as systemd would.

const systemdAnalyze = provide('systemd')
const unit = readFileSync(join(PROJECT, 'deploy/systemd/landfall.service'), 'utf8')
const valueOf = (name: string): string => new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1] ?? ''
const [program = '', ...args] = valueOf('ExecStart').split(' ')

t.test('systemd finds no mistake in the unit and little that it could do harm with', (t) => {
  const file = join(temporaryFolder(t), 'landfall.service')
  writeFileSync(file, unit.replace(`ExecStart=${program} `, `ExecStart=${process.execPath} `))
  const run = (...args: string[]) => spawnSync(systemdAnalyze, [...args, file], { encoding: 'utf8' })
  const { status, stderr } = run('verify', '--man=no')
  t.same([status, stderr.split('\n').filter((line) => line.includes('landfall.service'))], [0, []])
  const { status: exposure, stdout } = run('security', '--offline=true', '--no-pager', '--threshold=20')
  t.equal(exposure, 0, `the exposure is at most 2.0 of 10: ${stdout.slice(-100)}`)
  t.end()
})

t.test('the limits of the unit fit the default settings, and its settings exist', (t) => {
  const config = loadConfig({})
  const longestStopMs = config.SHUTDOWN_TIMEOUT_MS + config.DATABASE_TIMEOUT_MS + 1000
  t.ok(Number(valueOf('TimeoutStopSec')) * 1000 > longestStopMs, 'also with a last report of read counts')
  t.ok(Number(valueOf('LimitNOFILE')) > 2 * config.MAX_CONNECTIONS + 100)
  const known = readFileSync(join(PROJECT, '.env.example'), 'utf8')
  for (const [name = '', value = ''] of valueOf('Environment').split(' ').map((pair) => pair.split('='))) {
    if (name === 'NODE_ENV') continue
    t.ok(known.includes(`\n# ${name}=`), name)
    t.ok(value.startsWith(`/var/lib/${valueOf('StateDirectory')}/`), `${value} is in the writable folder`)
  }
  t.end()
})

t.test('its command runs the service, and its signal to the first process stops all workers', async (t) => {
  t.same([program, valueOf('KillMode')], ['/usr/bin/node', 'mixed'])
  const env = { ...await testSettings(t), REDIS_URL: await claimRedis(t), WEB_CONCURRENCY: '2' }
  const { child, output, url } = await startService(t, env, [process.execPath, ...args])
  const exited = new Promise((resolve) => child.once('exit', resolve))
  process.kill(child.pid as number, valueOf('KillSignal'))
  t.equal(await exited, 0, output().slice(-500))
  await t.rejects(fetch(`${url}/health/live`), 'no worker listens any more')
})
