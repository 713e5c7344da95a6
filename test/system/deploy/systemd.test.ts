import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { getPriority } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { createLandfallClient, memoryTokens } from '../../../packages/client/src/index.ts'
import { loadConfig } from '../../../src/config.ts'
import { testSettings } from '../../helpers/app.ts'
import { childrenOf } from '../../shared/child-processes.ts'
import { asJpeg, card } from '../../shared/pictures.ts'
import { provide } from '../../shared/programs.ts'
import { claimRedis } from '../../helpers/servers.ts'
import { PROJECT, startService, temporaryFolder } from '../../helpers/service.ts'

// Checks deploy/systemd/landfall.service, and runs its command as systemd would.

const systemdAnalyze = provide('systemd')
const python = provide('libseccomp')
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
    t.ok(value.startsWith('/var/lib/landfall/'), `${value} is in the writable folder`)
  }
  t.equal(valueOf('StateDirectory'), 'landfall landfall/uploads')
  t.equal(valueOf('StateDirectoryMode'), '0710', 'nginx may open uploads by name, and nobody can list them')
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

/** Returns the system calls that the unit allows. A line that begins with ~ takes from those before it. */
function allowedCalls (): Set<string> {
  const allowed = callsOf('@default')
  for (const [, without, names = ''] of unit.matchAll(/^SystemCallFilter=(~?)(.*)$/gm)) {
    for (const call of names.split(' ').flatMap((name) => [...callsOf(name)])) {
      if (without === '~') allowed.delete(call)
      else allowed.add(call)
    }
  }
  return allowed
}

/** Returns the calls in a group of systemd, whose name begins with @. */
function callsOf (name: string): Set<string> {
  if (!name.startsWith('@')) return new Set([name])
  const { stdout } = spawnSync(systemdAnalyze, ['--no-pager', 'syscall-filter', name], { encoding: 'utf8' })
  const members = stdout.split('\n').slice(1).map((line) => line.trim())
  return new Set(members.filter((member) => /^@?\w/.test(member)).flatMap((member) => [...callsOf(member)]))
}

/** Starts the service with a filter, and makes a variant. @returns the priorities of its children */
async function prioritiesUnder (t: Test, calls: Set<string>): Promise<number[]> {
  const filter = join(PROJECT, 'test/system/deploy/system-call-filter.py')
  const command = [python, filter, [...calls].join(), process.execPath, ...args] as const
  const { url, child, output } = await startService(t, await testSettings(t), command)
  const client = createLandfallClient({ baseUrl: url, tokens: memoryTokens() })
  await client.auth.signUp({ email: 'owner@example.com', password: 'correct horse battery' })
  const { variants } = await client.assets.upload(new Blob([new Uint8Array(await asJpeg(card()))]))
  const { pathname } = new URL(variants[0]?.url as string)
  t.equal((await fetch(url + pathname)).status, 200, output().slice(-1000))
  return childrenOf(child.pid as number).map((pid) => getPriority(pid))
}

t.test('its filter of system calls lets a child process with low priority make variants', async (t) => {
  const priorities = await prioritiesUnder(t, allowedCalls())
  t.ok(priorities.some((priority) => priority > 0), priorities.join())
})

t.test('a filter that does not let processes lower their priority does not prevent variants', async (t) => {
  const calls = allowedCalls()
  t.ok(calls.delete('setpriority'))
  t.ok((await prioritiesUnder(t, calls)).every((priority) => priority === 0))
})
