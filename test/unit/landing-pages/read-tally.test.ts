import t from 'tap'
import { NOT_READ, ReadTally, type CountedDocument,
  type TakenReads } from '../../../src/modules/landing-pages/public/read-reporter.ts'

// What is left of reads that are not reported yet. read-counts.test.ts counts them in all periods.

const newDocument = (publicId: string): CountedDocument => ({ publicId, pageReads: NOT_READ })

/** Counts a number of reads with 200, and of reads with 304. */
function count (tally: ReadTally, document: CountedDocument, reads: number, notModified = 0): void {
  for (let n = 0; n < reads; n++) tally.count(document, false)
  for (let n = 0; n < notModified; n++) tally.count(document, true)
}

/** Takes all counts of ended periods. */
function takeAll (tally: ReadTally): TakenReads[] {
  const all: TakenReads[] = []
  for (let taken; (taken = tally.take()) !== undefined;) all.push(taken)
  return all
}

/** Sums up counts as `reads / notModified`, by page. */
function sums (all: readonly TakenReads[]): Record<string, string> {
  const pages: Record<string, [number, number]> = {}
  for (const { publicIds, reads, notModified } of all) {
    for (const [index, publicId] of publicIds.entries()) {
      const page = pages[publicId] ??= [0, 0]
      page[0] += reads[index] as number
      page[1] += notModified[index] as number
    }
  }
  return Object.fromEntries(Object.entries(pages).map(([publicId, page]) => [publicId, page.join(' / ')]))
}

t.test('a report has a limited number of pages, and a full one is announced', async (t) => {
  let full = 0
  const tally = new ReadTally({ onFull: () => full++, maxReportedPages: 3 })
  for (let n = 0; n < 7; n++) count(tally, newDocument(`page ${n}`), n + 1)
  t.equal(full, 2)
  tally.endPeriod()
  const all = takeAll(tally)
  t.same(all.map(({ publicIds }) => publicIds.length), [3, 3, 1])
  t.same(all.flatMap(({ reads }) => reads), [1, 2, 3, 4, 5, 6, 7])
})

t.test('beyond the maximum number of counts, only pages that have one are counted', async (t) => {
  const tally = new ReadTally({ onFull: () => {}, maxCounts: 2 })
  const [a, b, c] = [newDocument('a'), newDocument('b'), newDocument('c')] as const
  count(tally, a, 1)
  count(tally, b, 1)
  count(tally, c, 3, 1)
  count(tally, a, 1)
  t.equal(tally.dropped, 4)
  t.equal(tally.size, 2)
  tally.endPeriod()
  count(tally, a, 1)
  t.equal(tally.dropped, 5, 'counts that were not taken yet have the room')
  t.same(sums(takeAll(tally)), { a: '2 / 0', b: '1 / 0' })
  count(tally, c, 1)
  tally.endPeriod()
  t.same(sums(takeAll(tally)), { c: '1 / 0' }, 'there is room again')
  t.equal(tally.dropped, 5)
})
