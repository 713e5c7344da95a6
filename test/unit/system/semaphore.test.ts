import t from 'tap'
import { KeyedSemaphore, Semaphore } from '../../../src/infra/system/semaphore.ts'

const create = (maxRunning: number, maxWaiting: number): Semaphore =>
  new Semaphore({ maxRunning, maxWaiting, createRefusal: () => new Error('too many') })

/** Tasks that end when the test calls end(). */
class Tasks {
  readonly started: number[] = []
  readonly #ends = new Map<number, (error?: Error) => void>()

  start (semaphore: Semaphore, id: number, key?: string): Promise<number> {
    return semaphore.run(async () => {
      this.started.push(id)
      await new Promise<void>((resolve, reject) =>
        this.#ends.set(id, (error) => error === undefined ? resolve() : reject(error))
      )
      return id
    }, key)
  }

  async end (id: number, error?: Error): Promise<void> {
    this.#ends.get(id)?.(error)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

t.test('a task that fails lets the next one start', async (t) => {
  const semaphore = create(1, 1)
  const tasks = new Tasks()
  const first = tasks.start(semaphore, 1)
  const second = tasks.start(semaphore, 2)
  const rejection = t.rejects(first, { message: 'failed' })
  await tasks.end(1, new Error('failed'))
  await rejection
  await tasks.end(2)
  t.equal(await second, 2)
})

t.test('refuseWaiting() refuses the tasks that wait, and the running ones go on', async (t) => {
  const semaphore = create(1, 5)
  const tasks = new Tasks()
  const first = tasks.start(semaphore, 1)
  const waiting = [2, 3].map((id) => t.rejects(tasks.start(semaphore, id), { message: 'gone' }))
  semaphore.refuseWaiting(new Error('gone'))
  await Promise.all(waiting)
  t.match(semaphore, { running: 1, waiting: 0, refused: 0 })
  await tasks.end(1)
  t.equal(await first, 1)
  t.same(tasks.started, [1])
})

t.test('tasks wait for those with the same key only, and fail with the one that they wait for', async (t) => {
  const semaphore = new KeyedSemaphore<string>({
    maxRunning: 1,
    maxWaiting: 10,
    createRefusal: () => new Error('too many')
  })
  const started: string[] = []
  const fault = new Error('no database')
  let fail = (_error: Error): void => {}
  const running = semaphore.run('a', async () => {
    started.push('a1')
    await new Promise((_resolve, reject) => {
      fail = reject
    })
  })
  const waiting = semaphore.run('a', async () => {
    started.push('a2')
  })
  await semaphore.run('b', async () => {
    started.push('b')
  })
  t.same(started, ['a1', 'b'])
  fail(fault)
  await t.rejects(running, fault)
  await t.rejects(waiting, fault)
  t.equal(await semaphore.run('a', async () => 'later'), 'later')
  t.same(started, ['a1', 'b'])
})
