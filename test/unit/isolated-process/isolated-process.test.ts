import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { RetryLaterError } from '../../../src/errors.ts'
import { IsolatedProcess,
  type IsolatedProcessOptions } from '../../../src/infra/isolated-process/isolated-process.ts'
import { until } from '../../helpers/until.ts'

// Untrusted work in a child process: answers, time, memory, crashes, end.

const busy = new Error('busy')

function create (t: Test, options: Partial<IsolatedProcessOptions> = {}) {
  const isolated = new IsolatedProcess({
    script: new URL('./tasks.ts', import.meta.url),
    memoryMib: 512,
    heapMib: 64,
    priority: 'low',
    cpuLimitMs: 10_000,
    timeLimitMs: 120_000, // on a busy machine, a process of low priority hardly runs
    idleMs: 30_000,
    maxWaiting: 2,
    createRefusal: () => busy,
    ...options
  })
  t.teardown(() => isolated.close())
  const run = async (kind: string, account = 1) =>
    await isolated.inTurn(account, 0, async () => await isolated.run<number>({ kind, task: undefined }))
  return { isolated, run }
}

/** The error of a task. */
const failureOf = async (task: Promise<unknown>): Promise<unknown> =>
  await task.then(() => 'it did not fail', (error: unknown) => error)

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

t.test('one process runs task after task', async (t) => {
  const { run } = create(t)
  const [one, other] = await Promise.all([run('pid'), run('pid')])
  t.equal(one, other)
  t.not(one, process.pid)
})

t.test('it does not see the settings of the service', async (t) => {
  const { isolated } = create(t)
  process.env.JWT_SECRET = 'a secret'
  t.teardown(() => delete process.env.JWT_SECRET)
  const names = await isolated.run<string[]>({ kind: 'environment', task: undefined })
  t.ok(names.includes('PATH'))
  t.notOk(names.includes('JWT_SECRET'))
})

t.test('megabytes go in and out, task after task', async (t) => {
  const { isolated } = create(t)
  for (const byteSize of [3_000_000, 0, 70_000]) {
    const input = Buffer.alloc(byteSize, 'abc')
    const output = await isolated.run<number, Buffer>({
      kind: 'reverse',
      task: 'é',
      input: Readable.from([input.subarray(0, 10), input.subarray(10)]),
      byteSize,
      async take (length, bytes) {
        t.equal(length, byteSize)
        return await buffer(bytes)
      }
    })
    t.ok(output.equals(Buffer.concat([Buffer.from(input).reverse(), Buffer.from('é')])))
  }
})

t.test('a task that takes too long, too much memory or fails ends its process, and the next one works', async (t) => {
  const hasty = create(t, { timeLimitMs: 500 })
  t.match(await failureOf(hasty.run('hang')), { reason: 'too_slow', signal: 'SIGKILL' })
  const { run } = create(t, { cpuLimitMs: 500 })
  t.match(await failureOf(run('loop')), { reason: 'too_costly', signal: 'SIGKILL' })
  t.match(await failureOf(run('fail')), { reason: 'ended', signal: null, message: /a fault of the program/ })
  t.type(await run('pid'), 'number')
  const patient = create(t, { cpuLimitMs: 30_000 })
  t.match(await failureOf(patient.run('fill')), { reason: 'ended', signal: 'SIGABRT' })
  t.type(await patient.run('pid'), 'number')
})

t.test('accounts have their turn by the processor time that they used, not by the time that passed', async (t) => {
  for (const [kind, turns] of [['hang', [3, 1, 2]], ['loop', [3, 2, 1]]] as const) {
    const { isolated, run } = create(t, { cpuLimitMs: 1500, ...kind === 'hang' && { timeLimitMs: 1500 } })
    await failureOf(run(kind, 1))
    const order: number[] = []
    await Promise.all([3, 1, 2].map(async (account) =>
      await isolated.inTurn(account, 0, async () => {
        order.push(account)
        await new Promise((resolve) => setImmediate(resolve))
      })
    ))
    t.same(order, turns, kind)
  }
})

t.test('a process that can not start fails its task', async (t) => {
  const { run } = create(t, { script: new URL('./missing.ts', import.meta.url) })
  t.match(await failureOf(run('pid')), { reason: 'unavailable', message: /missing/ })
})

t.test('a process that died or was idle is replaced', async (t) => {
  const { run } = create(t, { idleMs: 300 })
  const first = await run('pid')
  process.kill(first, 'SIGKILL')
  await until(() => !isAlive(first), 'it has ended')
  const second = await run('pid')
  t.not(second, first)
  await until(() => !isAlive(second), 'it ends when it is idle')
  t.not(await run('pid'), second)
})

t.test('the error of an input fails its task, and the next one gets its own bytes', async (t) => {
  const { isolated } = create(t)
  async function* broken (): AsyncGenerator<Buffer> {
    yield Buffer.alloc(100_000)
    throw new Error('the storage broke')
  }
  const task = { kind: 'reverse', task: '', byteSize: 200_000, input: Readable.from(broken()) }
  await t.rejects(isolated.run(task), { message: 'the storage broke' })
  t.equal(await isolated.run({ ...task, byteSize: 2, input: Readable.from([Buffer.from('ab')]) }), 2)
})

t.test('tasks that wait are limited, and close() refuses those that run or wait', async (t) => {
  const { isolated, run } = create(t)
  const first = await run('pid')
  const tasks = [run('hang', 1), run('pid', 2), run('pid', 3)]
  await t.rejects(run('pid', 3), busy)
  t.equal(isolated.waiting, 2)
  const ends = Promise.allSettled(tasks)
  isolated.close()
  const reasons = (await ends).map((end) => end.status === 'rejected' && end.reason)
  t.ok(reasons.every((reason) => reason instanceof RetryLaterError && reason.statusCode === 503))
  await t.rejects(run('pid'), RetryLaterError)
  await until(() => !isAlive(first), 'the process has ended')
})
