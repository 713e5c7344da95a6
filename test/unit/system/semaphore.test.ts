import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { KeyedSemaphore, Semaphore } from '../../../src/infra/system/semaphore.ts'

const OPTIONS = { maxRunning: 1, maxWaiting: 5, createRefusal: () => new Error('too many') }

/** A task that ends when the test says so. */
function pendingTask () {
  let end = (_error?: Error): void => {}
  const ended = new Promise<void>((resolve, reject) => {
    end = (error) => error === undefined ? resolve() : reject(error)
  })
  return { run: async () => await ended, end }
}

t.test('a task that fails lets the next one start', async (t) => {
  const semaphore = new Semaphore(OPTIONS)
  const failing = semaphore.run(async () => {
    await turn()
    throw new Error('failed')
  })
  const next = semaphore.run(async () => 'done')
  await t.rejects(failing, { message: 'failed' })
  t.equal(await next, 'done')
})

t.test('tasks wait for those with the same key only, and fail with the one that they wait for', async (t) => {
  const semaphore = new KeyedSemaphore<string>(OPTIONS)
  const fault = new Error('no database')
  const { run, end } = pendingTask()
  const running = semaphore.run('a', run)
  const waiting = semaphore.run('a', async () => t.fail('it ran'))
  t.equal(await semaphore.run('b', async () => 'at once'), 'at once')
  end(fault)
  await t.rejects(running, fault)
  await t.rejects(waiting, fault)
  t.equal(await semaphore.run('a', async () => 'later'), 'later')
})

t.test('of the errors of a keyed semaphore, only those that concern all waiting tasks are theirs', async (t) => {
  const fault = new Error('no database')
  const semaphore = new KeyedSemaphore<string>({ ...OPTIONS, concernsWaiting: (error) => error === fault })
  const fail = async (error: Error) => await semaphore.run('a', async () => await Promise.reject(error))
  const own = fail(new Error('not found'))
  const next = fail(fault)
  const last = semaphore.run('a', async () => t.fail('it ran'))
  await t.rejects(own, { message: 'not found' })
  await t.rejects(next, fault)
  await t.rejects(last, fault)
})
