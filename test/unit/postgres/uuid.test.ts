import t from 'tap'
import { uuidv7 } from '../../../src/infra/system/identifiers.ts'

t.test('uuidv7() returns UUIDs with the current time that sort in order of creation', async (t) => {
  const before = Date.now()
  const ids = Array.from({ length: 50_000 }, uuidv7)
  const after = Date.now()
  t.same(
    ids.filter((id) => !/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id)),
    []
  )
  t.same([...ids].sort(), ids)
  t.equal(new Set(ids).size, ids.length)
  const time = (id: string | undefined) => parseInt((id ?? '').replaceAll('-', '').slice(0, 12), 16)
  t.ok(time(ids[0]) >= before)
  // When the counter of a millisecond is full, the next one is used. The clock may have been set back.
  t.ok(time(ids.at(-1)) <= Math.max(after, time(ids[0])) + 50_000 / 2048)
})
