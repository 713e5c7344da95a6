import t from 'tap'
import { uuidv7 } from '../../src/database/uuid.ts'

t.test('UUIDs of version 7: of this moment, each one later than all before, however many in a millisecond', async (t) => {
  const before = Date.now()
  const ids = Array.from({ length: 50_000 }, uuidv7)
  const after = Date.now()
  t.same(ids.filter((id) => !/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id)), [])
  t.same([...ids].sort(), ids)
  t.equal(new Set(ids).size, ids.length)
  const time = (id: string | undefined) => parseInt((id ?? '').replaceAll('-', '').slice(0, 12), 16)
  t.ok(time(ids[0]) >= before)
  // Faster than its counter allows, it borrows from the milliseconds to come.
  t.ok(time(ids.at(-1)) <= after + 50_000 / 2048)
})
