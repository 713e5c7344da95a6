import t from 'tap'
import { preferredWait } from '../../../src/modules/landing-pages/manage/receipts.ts'

// How Prefer is read. Writes with Prefer: test/integration/landing-pages/receipts.test.ts.

t.test('a header without an end of its strings is read once, however long it is', async (t) => {
  const length = 200_000 // if each character were compared with all that follow, it would take minutes
  for (const header of ['\\"'.repeat(length), `${'\\"'.repeat(length)}\\`, '",\\'.repeat(length)]) {
    t.equal(preferredWait(`wait=5,"${header}`), 5)
  }
  t.equal(preferredWait('a="x, wait=5'), undefined)
})
