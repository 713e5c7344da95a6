import t, { type Test } from 'tap'
import { replaceClock } from '../../helpers/clock.ts'
import { FairQueue } from '../../../src/infra/isolated-process/fair-queue.ts'

const MINUTE_MS = 60_000

/** A queue whose tasks take the time that they say, in the time of the test. */
class Line {
  /** The names of the tasks that ran. */
  readonly ran: string[] = []
  readonly refused: string[] = []
  readonly queue = new FairQueue<string>({
    maxWaiting: 3,
    createRefusal: () => new Error('too many'),
    meter: () => this.#now
  })

  #now = 0

  constructor (t: Test) {
    replaceClock(t, () => this.#now)
  }

  /** Adds a task whose name begins with its key. */
  async add (name: string, ms: number, expectedMs = 0): Promise<void> {
    try {
      await this.queue.run(name.charAt(0), expectedMs, async () => {
        this.ran.push(name)
        await new Promise((resolve) => setImmediate(resolve))
        this.pass(ms)
      })
    } catch {
      this.refused.push(name)
    }
  }

  pass (ms: number): void {
    this.#now += ms
  }
}

t.test('the key that used least time is next, and tasks of a key run in order', async (t) => {
  const line = new Line(t)
  await line.add('a0', 1300)
  await line.add('b0', 1200)
  await Promise.all(['c1', 'a1', 'a2', 'b1'].map(async (name) => await line.add(name, 250)))
  t.same(line.ran.slice(2), ['c1', 'b1', 'a1', 'a2'])
})

t.test('of keys that used nothing yet, the one whose task is expected to be short is next', async (t) => {
  const line = new Line(t)
  await Promise.all([line.add('a1', 10), line.add('b1', 10, 500), line.add('c1', 10, 5)])
  t.same(line.ran, ['a1', 'c1', 'b1'])
})

t.test('if too many wait, the key that used most loses its last task', async (t) => {
  const line = new Line(t)
  await line.add('a0', 1300)
  await line.add('b0', 1200)
  await Promise.all(['x1', 'a1', 'a2', 'b1', 'c1', 'b2', 'd1', 'a3']
    .map(async (name) => await line.add(name, 250)))
  t.same(line.refused, ['a2', 'a1', 'b2', 'a3'])
  t.same(line.ran.slice(2), ['x1', 'c1', 'd1', 'b1'])
})

t.test('of keys that used the same, the one whose tasks need most loses one, then the newcomer', async (t) => {
  const line = new Line(t)
  await Promise.all([
    line.add('x1', 0),
    line.add('a1', 0, 50),
    line.add('a2', 0, 50),
    line.add('b1', 0, 90),
    line.add('c1', 0, 90),
    line.add('d1', 0, 90)
  ])
  t.same(line.refused, ['a2', 'd1'])
})

t.test('a key that used less than a second does not stand behind those that come', async (t) => {
  const line = new Line(t)
  await line.add('a0', 900)
  await Promise.all([line.add('x1', 0), line.add('a1', 0, 10), line.add('b1', 0, 20)])
  t.same(line.ran.slice(1), ['x1', 'a1', 'b1'])
})

t.test('past use counts half after ten minutes', async (t) => {
  const line = new Line(t)
  await line.add('a0', 4000)
  line.pass(10 * MINUTE_MS)
  await line.add('b0', 3000)
  await Promise.all(['x1', 'b1', 'a1'].map(async (name) => await line.add(name, 0)))
  t.same(line.ran.slice(2), ['x1', 'a1', 'b1'])
})
