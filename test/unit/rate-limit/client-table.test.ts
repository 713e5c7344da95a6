import fc from 'fast-check'
import t from 'tap'
import { ClientTable } from '../../../src/modules/rate-limit/client-table.ts'

const WINDOW_MS = 60_000
const addressOf = (client: number): string =>
  `2001:db8:${(client >> 16).toString(16)}:${(client & 0xffff).toString(16)}::`

t.test('reads are counted in windows that begin with the first read', async (t) => {
  const table = new ClientTable(WINDOW_MS)
  for (let n = 1; n <= 5; n++) {
    t.match(table.take('a', 5, false, 1000 + n), { allowed: true, used: n, resetAt: 1001 + WINDOW_MS })
  }
  t.equal(table.take('a', 5, false, 60_000), undefined)
  t.match(table.take('b', 5, false, 60_000), { used: 1 }, 'another client')
  t.match(table.take('a', 5, false, 61_001), { used: 1, resetAt: 61_001 + WINDOW_MS })
  table.clear('a')
  t.match(table.find('a', 61_002), { used: 0 })
})

t.test('with the previous window, no period as long as a window has more reads than allowed', async () => {
  const pauses = fc.array(fc.oneof(fc.nat(2000), fc.nat(70_000)), { minLength: 20, maxLength: 80 })
  fc.assert(fc.property(pauses, fc.integer({ min: 1, max: 8 }), (pauses, allowance) => {
    const table = new ClientTable(WINDOW_MS)
    const reads: number[] = []
    let now = 5
    for (const pause of pauses) {
      now += pause
      if (table.take('a', allowance, true, now) !== undefined) reads.push(now)
    }
    const most = Math.max(...reads.map((from) =>
      reads.filter((at) => at >= from && at < from + WINDOW_MS).length
    ))
    return most <= allowance
  }))
})

t.test('the table counts like a map of windows', async () => {
  const read = fc.record({ client: fc.nat(300), pauseMs: fc.nat(400) })
  fc.assert(
    fc.property(fc.array(read, { minLength: 500, maxLength: 1500 }), (reads) => {
      const table = new ClientTable(WINDOW_MS)
      const model = new Map<number, { used: number, resetAt: number }>()
      let now = 2 ** 32 - 50_000 // the table has 32 bits for times
      return reads.every(({ client, pauseMs }) => {
        now += pauseMs
        let window = model.get(client)
        if (window === undefined || now >= window.resetAt) {
          model.set(client, window = { used: 0, resetAt: now + WINDOW_MS })
        }
        const count = table.take(addressOf(client), 4, false, now)
        if (window.used === 4) return count === undefined
        return count?.used === ++window.used && count.resetAt === window.resetAt
      })
    }),
    { numRuns: 20 }
  )
})

t.test('memory is bounded, and clients that the full table forgets are not refused', async (t) => {
  const table = new ClientTable(WINDOW_MS)
  for (let client = 0; client < 100_000; client++) table.take(addressOf(client), 1, true, 1)
  t.ok(table.bytes < 100_000 * 60, `${table.bytes / 100_000} bytes a client`)
  let refused = 0
  for (let client = 0; client < 2_500_000; client++) {
    if (table.take(addressOf(client + 100_000), 1, true, 2 + client / 1000) === undefined) refused++
  }
  t.equal(refused, 0)
  t.ok(table.bytes <= 42 * 2 ** 20, `${table.bytes} bytes`)
  const last = addressOf(2_599_999)
  t.equal(table.take(last, 1, true, 3000), undefined, 'the newest windows are remembered')
  t.ok(table.take(addressOf(0), 1, true, 3000) !== undefined, 'the oldest are not')
})
