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

t.test('at most maxRunning tasks run at a time, and the others start in order', async (t) => {
  const semaphore = create(2, 10)
  const tasks = new Tasks()
  const results = Promise.all([1, 2, 3, 4].map(async (id) => await tasks.start(semaphore, id)))
  t.same(tasks.started, [1, 2])
  t.match(semaphore, { running: 2, waiting: 2 })
  await tasks.end(2)
  t.same(tasks.started, [1, 2, 3])
  await tasks.end(1)
  t.same(tasks.started, [1, 2, 3, 4])
  t.match(semaphore, { running: 2, waiting: 0 })
  await tasks.end(3)
  await tasks.end(4)
  t.same(await results, [1, 2, 3, 4])
  t.match(semaphore, { running: 0, waiting: 0, refused: 0 })
})

t.test('a task that finds maxWaiting tasks waiting is refused and never starts', async (t) => {
  const semaphore = create(1, 1)
  const tasks = new Tasks()
  const first = tasks.start(semaphore, 1)
  const second = tasks.start(semaphore, 2)
  await t.rejects(tasks.start(semaphore, 3), { message: 'too many' })
  t.equal(semaphore.refused, 1)
  await tasks.end(1)
  await tasks.end(2)
  t.same(await Promise.all([first, second]), [1, 2])
  t.same(tasks.started, [1, 2])
  const fourth = tasks.start(semaphore, 4)
  await tasks.end(4)
  t.equal(await fourth, 4, 'the queue has a free place again')
})

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

t.test('keys take turns, and none has more than its share of the waiting tasks', async (t) => {
  const semaphore = new Semaphore({
    maxRunning: 1,
    maxWaiting: 5,
    maxWaitingPerKey: 3,
    createRefusal: () => new Error('too many')
  })
  const tasks = new Tasks()
  const all = [0, 1, 2, 3].map(async (id) => await tasks.start(semaphore, id, 'a'))
  await t.rejects(tasks.start(semaphore, 4, 'a'), { message: 'too many' })
  all.push(tasks.start(semaphore, 10, 'b'), tasks.start(semaphore, 20, 'c'))
  await t.rejects(tasks.start(semaphore, 30, 'd'), { message: 'too many' }, 'the sum is bounded, too')
  t.match(semaphore, { running: 1, waiting: 5, refused: 2 })
  await tasks.end(0)
  all.push(tasks.start(semaphore, 11, 'b'))
  for (const id of [1, 10, 20, 2, 11, 3]) await tasks.end(id)
  t.same(tasks.started, [0, 1, 10, 20, 2, 11, 3])
  await Promise.all(all)
  t.match(semaphore, { running: 0, waiting: 0 })
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
