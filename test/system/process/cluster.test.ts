import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { PASSWORD, testSettings } from '../../helpers/app.ts'
import { ask, Owner } from '../../helpers/client.ts'
import { claimRedis, freePort, listen } from '../../helpers/servers.ts'
import { runService, startService, temporaryFolder, type Service } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

const settings = async (t: Test): Promise<Record<string, string>> => ({
  ...await testSettings(t),
  LOG_LEVEL: 'info',
  REDIS_URL: await claimRedis(t),
  WEB_CONCURRENCY: '2'
})

async function startWorkers (t: Test, env: Record<string, string> = {}): Promise<Service> {
  const service = await startService(t, { ...await settings(t), ...env })
  await until(() => service.output().includes('all workers are listening'))
  return service
}

function processes (): { pid: number, parent: number }[] {
  const table = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,stat='], { encoding: 'utf8' })
  return table.trim().split('\n').map((line) => line.trim().split(/\s+/))
    .filter(([, , state = '']) => !state.startsWith('Z'))
    .map(([pid, parent]) => ({ pid: Number(pid), parent: Number(parent) }))
}

const workersOf = (service: Pick<Service, 'child'>): number[] =>
  processes().filter(({ pid, parent }) => parent === service.child.pid && pid !== process.pid).map((
    { pid }
  ) => pid)
const running = (pids: readonly number[]): number[] =>
  processes().map(({ pid }) => pid).filter((pid) => pids.includes(pid))
const linesOf = (output: string): Record<string, unknown>[] =>
  output.split('\n').filter((line) => line.startsWith('{')).map((line) => JSON.parse(line))

/** Asks on a connection of its own, which any worker may accept. */
const statusOf = async (url: string, headers = {}): Promise<number> =>
  (await ask(url, '', { headers })).status

// Two tests share these workers. The second one kills and ends them.
const opsPort = await freePort()
const service = await startWorkers(t, { OPS_PORT: String(opsPort), TRUST_PROXY: '127.0.0.1' })
const scrape = async () => (await ask(`http://127.0.0.1:${opsPort}`, '/metrics')).body.toString()

t.test('a failed start logs the reason once and leaves no process behind', async (t) => {
  const two = await settings(t)
  const { REDIS_URL: _redisUrl, WEB_CONCURRENCY: _two, ...one } = two
  const file = join(temporaryFolder(t), 'file')
  writeFileSync(file, '')
  const wrong = Object.assign(new URL(one.DATABASE_URL as string), { password: 'hunter2' })
  const taken = String(await listen(t, createServer()))
  const starts: [name: string, env: Record<string, string>, reason: RegExp][] = [
    ['a silent log', { LOG_LEVEL: 'silent', JWT_SECRET: 'short' }, /: JWT_SECRET must /],
    ['a data folder that is a file', { DATA_DIR: file, UPLOADS_DIR: temporaryFolder(t) }, /DATA_DIR/],
    ['an uploads folder that is a file', { ...one, UPLOADS_DIR: file }, /UPLOADS_DIR/],
    ['a port that is taken', { ...one, PORT: taken }, /Port \d+ of 127\.0\.0\.1 is in use .* set PORT/],
    [
      'a metrics port that is taken, with workers',
      { ...two, OPS_PORT: taken },
      /Port \d+ of 127\.0\.0\.1 is in use .* set OPS_PORT/
    ],
    ['workers without Redis', { ...two, REDIS_URL: '' }, /WEB_CONCURRENCY must be 1 without REDIS_URL/],
    ['a wrong password', { ...two, DATABASE_URL: wrong.href }, /could not start/],
    [
      'an invalid address',
      { ...one, DATABASE_URL: 'postgresql://user:hunter2@host:port/x' },
      /DATABASE_URL is not a valid address/
    ],
    [
      'workers without PostgreSQL',
      { ...two, DATABASE_URL: `postgresql://user:hunter2@127.0.0.1:${await freePort()}/x` },
      /127\.0\.0\.1/
    ]
  ]
  await Promise.all(starts.map(async ([name, env, reason]) => {
    const { code, output } = await runService(t, { PORT: '0', ...env })
    const said = output.split('\n').filter((line) => line.includes('"level":60,'))
    t.equal(code, 1, name)
    t.equal(said.length, 1, name)
    t.match(said[0], reason, name)
    t.notMatch(output, /hunter2|\n\s+at /, `${name}: no password, no stack`)
    const pids = linesOf(output).map(({ pid }) => Number(pid))
    t.same(running(pids), [], name)
  }))
})

t.test('both workers answer, count one limit and report common metrics', async (t) => {
  const workers = workersOf(service)
  t.equal(workers.length, 2)
  const owner = await Owner.signUp(service.url)
  const page = await owner.createPage(service.url, '{}')
  const headers = { authorization: `Bearer ${owner.accessToken}` }
  for (let n = 0; n < 10; n++) t.equal((await ask(service.url, '/auth/me', { headers })).status, 200)
  const answered = linesOf(service.output()).filter(({ msg }) => msg === 'answered')
  t.same(new Set(answered.map(({ pid }) => pid)), new Set(workers), 'each line names its process')

  const reads: number[] = []
  for (let n = 0; n < 40; n++) {
    reads.push(await statusOf(`${service.url}/landing_pages/${page.public_id}`))
  }
  t.same(reads, [...Array(30).fill(200), ...Array(10).fill(429)])

  const metrics = await scrape()
  t.match(metrics, /^landfall_workers 2$/m)
  t.match(metrics, /^landfall_limits_shared 1$/m, 'the values of the workers are not added up')
  t.match(metrics, /^landfall_invalidation_channel_up 1$/m)
  t.equal(metrics.match(/^process_resident_memory_bytes /gm)?.length, 1)
  t.equal(await statusOf(`${service.url}/metrics`), 404)
})

t.test('a killed worker is replaced while the other one serves', async (t) => {
  const counted = (text: string) =>
    [...text.matchAll(/^landfall_public_reads_total\{.*\} (\d+)$/gm)].reduce(
      (sum, [, count]) => sum + Number(count),
      0
    )
  const page = await (await Owner.signUp(service.url)).createPage(service.url, '{}')
  let clients = 0
  /** Reads as another client each time. */
  const read = async () => {
    const address = `2001:db8:0:${(++clients).toString(16)}::1`
    return await statusOf(`${service.url}/landing_pages/${page.public_id}`, { 'x-forwarded-for': address })
  }
  const [victim = 0, survivor = 0] = workersOf(service)
  const before = counted(await scrape())
  for (let n = 0; n < 10; n++) t.equal(await read(), 200)
  t.equal(counted(await scrape()), before + 10)

  // Requests of a killed worker fail at once, and their clients don't hang.
  process.kill(victim, 'SIGSTOP')
  const given = Array.from(
    { length: 4 },
    async () => await read().catch((error: NodeJS.ErrnoException) => error.code)
  )
  while (
    (await Promise.all(given.map(async (answer) => await Promise.race([answer, 'waits'])))).filter((answer) =>
      answer !== 'waits'
    ).length < 3
  ) await sleep(10)
  process.kill(victim, 'SIGKILL')
  t.same((await Promise.all(given)).sort(), [200, 200, 200, 'ECONNRESET'])
  await until(() => service.output().includes('a worker crashed'))

  const reads: unknown[] = []
  while (!service.output().includes('the replacement worker is listening')) reads.push(await read())
  t.ok(reads.length > 0)
  t.same(new Set(reads), new Set([200]))
  const workers = workersOf(service)
  t.equal(workers.length, 2)
  t.ok(workers.includes(survivor) && !workers.includes(victim))
  t.match(linesOf(service.output()).find(({ worker }) => worker === victim), {
    signal: 'SIGKILL',
    code: null
  })

  const after = await scrape()
  t.match(after, /^landfall_worker_restarts_total 1$/m)
  t.match(after, /^landfall_workers 2$/m)
  t.equal(counted(after), before + 10 + 3 + reads.length, 'the counts include those of the killed worker')
  t.equal(await service.end('SIGTERM'), 0)
  t.same(running(workers), [])
})

t.test('a second signal cuts off the requests in flight', async (t) => {
  const service = await startWorkers(t, { SHUTDOWN_DELAY_MS: '500000', SHUTDOWN_TIMEOUT_MS: '600000' })
  const workers = workersOf(service)
  const stalled = Array.from({ length: 4 }, () => {
    const socket = connect(Number(new URL(service.url).port), '127.0.0.1', () => {
      socket
        .write('POST /auth/sign_in HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Type: ' +
          'application/json\r\nContent-Length: 100\r\n\r\n{')
    })
    socket.on('error', () => {})
    return socket
  })
  await Promise.all(stalled.map(async (socket) => await once(socket, 'data')))
  const ended = once(service.child, 'exit')
  service.child.kill('SIGINT')
  while (linesOf(service.output()).filter(({ msg }) => /requests in flight/.test(String(msg))).length < 2) {
    await sleep(20)
  }
  t.equal(service.child.exitCode, null, 'after one signal the service waits for the requests')
  service.child.kill('SIGINT')
  t.same(await ended, [0, null])
  t.same(running(workers), [])
})

t.test("a worker that doesn't end in time is killed", async (t) => {
  const service = await startWorkers(t, { SHUTDOWN_TIMEOUT_MS: '100' })
  const workers = workersOf(service)
  process.kill(workers[0] as number, 'SIGSTOP')
  const ended = once(service.child, 'exit')
  service.child.kill('SIGTERM')
  t.same(await ended, [1, null])
  t.same(running(workers), [])
})

t.test('when the primary is killed, its workers finish the requests in flight and exit', async (t) => {
  const service = await startWorkers(t)
  const workers = workersOf(service)
  const { email } = await Owner.signUp(service.url)
  const signIn = {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ user: { email, password: PASSWORD } })
  }
  const send = (path: string, options?: RequestInit) =>
    Array.from({ length: 8 }, async () => {
      const response = await fetch(`${service.url}${path}`, options)
      await response.text()
      return response.status
    })
  // fetch() uses these connections again. Those that only the primary has accepted would end with it.
  await Promise.all(send('/health/live'))
  const inFlight = send('/auth/sign_in', signIn)
  await Promise.race(inFlight)
  service.child.kill('SIGKILL')
  t.same(await Promise.all(inFlight), Array(8).fill(200))
  while (running(workers).length > 0) await sleep(20)
  t.pass('otherwise this test would time out')
})
