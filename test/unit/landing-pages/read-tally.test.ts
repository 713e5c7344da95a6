import t from 'tap'
import { NOT_READ, ReadTally,
  type CountedDocument } from '../../../src/modules/landing-pages/public/read-reporter.ts'

// Counts of more pages than a report or the memory has room for. read-counts.test.ts counts those of few.

const newDocument = (publicId: string): CountedDocument => ({ publicId, pageReads: NOT_READ })

t.test('a full report is announced, and has all reads of its pages', async (t) => {
  const reports: unknown[] = []
  const tally = new ReadTally(() => reports.push(tally.take()?.reads))
  for (let n = 0; n < 10_000; n++) tally.count(newDocument(`page ${n}`), false)
  await new Promise((resolve) => setImmediate(resolve))
  t.same(reports, [Array(10_000).fill(1)])
  t.equal(tally.size, 0)
})

t.test('beyond 100,000 counts, only pages that have one are counted until counts are taken', async (t) => {
  const tally = new ReadTally(() => {})
  const documents = Array.from({ length: 100_001 }, (_, n) => newDocument(`page ${n}`))
  for (const document of documents) tally.count(document, false)
  const [first, last] = [documents[0], documents[100_000]] as [CountedDocument, CountedDocument]
  tally.count(last, true)
  tally.count(first, true)
  t.equal(tally.dropped, 2)
  const report = tally.take()
  t.match([report?.publicIds.length, report?.reads[0], report?.notModified[0]], [10_000, 1, 1])
  t.equal(tally.size, 90_000)
  tally.count(first, false)
  tally.count(last, false)
  t.equal(tally.dropped, 2, 'there is room again')
  t.equal(tally.size, 90_002, 'also for the reads of a page that were not taken')
})
