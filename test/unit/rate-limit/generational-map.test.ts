import t from 'tap'
import { GenerationalMap } from '../../../src/modules/rate-limit/generational-map.ts'

t.test('an entry lives for at least its lifetime, and for at most twice as long', async (t) => {
  const map = new GenerationalMap<number>(1000, 100)
  map.set('first', 1, 0)
  map.set('second', 2, 999)
  t.equal(map.get('first'), 1)
  map.set('third', 3, 1000)
  t.equal(map.get('first'), 1, 'in the old generation')
  t.equal(map.get('second'), 2)
  map.set('fourth', 4, 2000)
  t.equal(map.get('first'), undefined)
  t.equal(map.get('second'), undefined)
  t.equal(map.get('third'), 3)
  t.equal(map.size, 2)
})

t.test('the oldest entries are dropped when there are too many', async (t) => {
  const map = new GenerationalMap<number>(1000, 10)
  for (let n = 0; n < 1000; n++) {
    map.set(String(n), n, 1)
    t.ok(map.size <= 10)
  }
  t.equal(map.get('999'), 999)
  t.equal(map.get('0'), undefined)
})

t.test('get() and entries() return the newest value of a key', async (t) => {
  const map = new GenerationalMap<number>(1000, 100)
  map.set('a', 1, 0)
  map.set('b', 2, 0)
  map.set('a', 3, 1000)
  t.equal(map.get('a'), 3)
  t.same([...map.entries()], [['b', 2], ['a', 3]])
})
