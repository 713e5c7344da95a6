import { AsyncLocalStorage } from 'node:async_hooks'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { until } from '../../helpers/until.ts'
import { Batcher } from '../../../src/infra/system/batcher.ts'

/** Returns a batcher whose batches wait for the test to answer them. */
function controlled (options: { maxKeys?: number, maxRunning?: number, maxWaitMs?: number } = {}) {
  const batches: {
    readonly keys: readonly string[]
    readonly response: (values?: readonly string[]) => void
    readonly fail: (error: Error) => void
  }[] = []
  const batcher = new Batcher<string, string>({
    run: async (keys) =>
      await new Promise((resolve, reject) => {
        const own = keys.map((key) => key.toUpperCase())
        batches.push({ keys: [...keys], response: (values = own) => resolve(values), fail: reject })
      }),
    maxKeys: 3,
    maxRunning: 1,
    ...options
  })
  const begun = async (count: number) => await until(() => batches.length >= count, `${count} batches`)
  return { batcher, batches, begun }
}

t.test('the keys of one turn are one batch, and each caller gets its own value', async (t) => {
  const { batcher, batches, begun } = controlled()
  const values = Promise.all(['a', 'b', 'a'].map(async (key) => await batcher.load(key)))
  await begun(1)
  batches[0]?.response()
  t.same(await values, ['A', 'B', 'A'])
  t.same(batches.map(({ keys }) => keys), [['a', 'b', 'a']])
  t.equal(batcher.started, 1)
})

t.test('keys that come while a batch is under way wait for the next one, which begins after it', async (t) => {
  const { batcher, batches, begun } = controlled()
  const first = batcher.load('a')
  await begun(1)
  const values = Promise.all(['b', 'c', 'd', 'e', 'a'].map(async (key) => await batcher.load(key)))
  for (let n = 0; n < 10; n++) await turn()
  t.equal(batches.length, 1, 'no second batch, and no key joins one that has begun')
  t.same(batches[0]?.keys, ['a'])
  batches[0]?.response(['old'])
  await begun(2)
  t.equal(batches.length, 2)
  batches[1]?.response()
  await begun(3)
  batches[2]?.response()
  t.equal(await first, 'old')
  t.same(await values, ['B', 'C', 'D', 'E', 'A'])
  t.same(batches.map(({ keys }) => keys.length), [1, 3, 2])
})

t.test('several batches run at the same time, but not more than allowed', async (t) => {
  const { batcher, batches, begun } = controlled({ maxRunning: 2, maxKeys: 1 })
  const values = Promise.all(['a', 'b', 'c'].map(async (key) => await batcher.load(key)))
  await begun(2)
  for (let n = 0; n < 10; n++) await turn()
  t.equal(batches.length, 2)
  batches[1]?.response()
  await begun(3)
  batches[2]?.response()
  batches[0]?.response()
  t.same(await values, ['A', 'B', 'C'])
})

t.test('a failure reaches the keys of its batch only, and a later batch is a new one', async (t) => {
  const { batcher, batches, begun } = controlled({ maxKeys: 2 })
  const settled = Promise.allSettled(['a', 'b', 'c'].map(async (key) => await batcher.load(key)))
  await begun(1)
  batches[0]?.fail(new Error('away'))
  await begun(2)
  batches[1]?.response()
  t.same(
    (await settled).map((result) => result.status === 'fulfilled' ? result.value : result.reason.message),
    [
      'away',
      'away',
      'C'
    ]
  )
  const again = batcher.load('a')
  await begun(3)
  batches[2]?.response()
  t.equal(await again, 'A')
})

t.test('a response with too few values fails instead of leaving callers waiting', async (t) => {
  const { batcher, batches, begun } = controlled()
  const settled = Promise.allSettled([batcher.load('a'), batcher.load('b')])
  await begun(1)
  batches[0]?.response(['A'])
  t.same((await settled).map(({ status }) => status), ['rejected', 'rejected'])
})

t.test('a batch that hangs holds up the next ones for maxWaitMs only', async (t) => {
  const { batcher, batches, begun } = controlled({ maxWaitMs: 5 })
  const hanging = batcher.load('a')
  await begun(1)
  const values = Promise.all(['b', 'c', 'd', 'e'].map(async (key) => await batcher.load(key)))
  await begun(3)
  for (const { response } of batches.slice(1)) response()
  t.same(await values, ['B', 'C', 'D', 'E'])
  batches[0]?.response()
  t.equal(await hanging, 'A')
})

t.test('a batch runs in the context of its first caller, also if another batch delayed it', async (t) => {
  const context = new AsyncLocalStorage<string>()
  const seen: (string | undefined)[] = []
  const batcher = new Batcher<string, string>({
    run: async (keys) => {
      seen.push(context.getStore())
      await turn()
      return keys
    },
    maxKeys: 1,
    maxRunning: 1
  })
  await Promise.all(['one', 'two'].map(async (name) =>
    await context.run(name, async () => {
      await batcher.load(name)
      t.equal(context.getStore(), name)
    })
  ))
  t.same(seen, ['one', 'two'])
})
