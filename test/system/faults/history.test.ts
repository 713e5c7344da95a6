import t from 'tap'
import { checkHistory, describeViolation, GONE, type Operation, type Outage, type Rule } from './history.ts'

// The checker must find every kind of violation. It accepts the correct history of coherence.test.ts.

const BOUND_MS = 100
const by = (kind: Operation['kind']) =>
(
  replica: number,
  version: number | undefined,
  start: number,
  end = start + 1,
  ifMatch?: number
): Operation => ({ kind, replica, page: 'page', version, start, end, ifMatch })
const [write, read, manage, refused] = [by('write'), by('read'), by('manage'), by('refused')]
const check = (operations: Operation[], outages: Outage[] = []) =>
  checkHistory(operations, { boundMs: BOUND_MS, outages })
const rules = (operations: Operation[], outages: Outage[] = []): Rule[] => [
  ...new Set(check(operations, outages).map(({ rule }) => rule))
]

const CREATED = write(0, 1, 0)
const UPDATED = write(0, 2, 10)
const DELETED = write(0, GONE, 20)

for (
  const [rule, what, operations] of [
    ['backwards', 'an older version after a newer one', [CREATED, UPDATED, read(1, 2, 15), read(1, 1, 17)]],
    ['backwards', 'hidden among overlapping reads', [
      CREATED,
      UPDATED,
      read(1, 1, 5, 50),
      read(1, 2, 15),
      read(1, 1, 30, 45),
      read(1, 1, 31, 60)
    ]],
    ['own write', 'an older version on the replica that wrote', [CREATED, UPDATED, read(0, 1, 12)]],
    ['stale', 'an old version past the bound', [CREATED, UPDATED, read(1, 1, 112)]],
    ['unwritten', 'a version that was never written', [CREATED, read(1, 2, 5)]],
    ['unwritten', 'a version that is written later', [CREATED, read(1, 2, 5), UPDATED]],
    ['management read', 'an old version from another replica', [CREATED, UPDATED, manage(1, 1, 12)]],
    ['order', 'a write after a deletion', [CREATED, DELETED, write(1, 2, 30)]],
    ['twice', 'one version written twice', [CREATED, write(0, 2, 10, 20), write(1, 2, 11, 21)]],
    ['unmet condition', 'two conditional writes with the same If-Match succeed', [
      CREATED,
      write(0, 2, 10, 20, 1),
      write(1, 3, 11, 21, 1)
    ]],
    ['wrongly refused', 'no conditional write succeeds', [CREATED, refused(0, 1, 10), refused(1, 1, 10)]]
  ] as const
) {
  t.test(`violation of "${rule}": ${what}`, async (t) => {
    t.same(rules([...operations]), [rule])
    t.match(
      check([...operations]).map(describeViolation)[0],
      new RegExp(`^${rule}: \\w+ of page on replica \\d from `)
    )
  })
}

t.test('for writes during an outage of their replica, the bound begins at the end of the outage', async (t) => {
  const outage = { replica: 0, from: 5, to: 500 }
  t.same(rules([CREATED, UPDATED, read(1, 1, 590)], [outage]), [])
  t.same(rules([CREATED, UPDATED, read(1, 1, 601)], [outage]), ['stale'])
  t.same(rules([CREATED, UPDATED, read(1, 1, 590)], [{ ...outage, replica: 1 }]), ['stale'])
  t.same(rules([CREATED, UPDATED, read(0, 1, 590)], [outage]), ['own write'])
})
