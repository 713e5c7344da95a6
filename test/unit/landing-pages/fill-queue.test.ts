import t from 'tap'
import type { DocumentVersion } from '../../../src/modules/landing-pages/public/cached-document.ts'
import { createFillQueue } from '../../../src/modules/landing-pages/public/fill-queue.ts'
import { until } from '../../helpers/until.ts'
import { Body } from '../../../src/modules/landing-pages/public/prepared-head.ts'

const documentOf = (bytes: number): DocumentVersion => ({
  publicId: 'A'.repeat(22),
  version: 1,
  hash: 'h'.repeat(43),
  updatedAt: new Date(0),
  body: new Body('x'.repeat(bytes))
})

/** Returns a queue whose batches are stored when the test says so. */
function slowQueue () {
  const batches: { readonly size: number, readonly store: () => void }[] = []
  const queue = createFillQueue(async (documents) => {
    await new Promise<void>((resolve) => batches.push({ size: documents.length, store: resolve }))
    return documents
  })
  const begun = async (count: number) => await until(() => batches.length >= count, `${count} batches`)
  return { queue, batches, begun }
}

t.test('while Redis is slow, at most 1 MiB waits, and further documents are dropped', async (t) => {
  const { queue, batches, begun } = slowQueue()
  const fills = [queue.fill(documentOf(10))]
  await begun(1)
  for (let n = 0; n < 100; n++) fills.push(queue.fill(documentOf(100 * 1024)))
  t.equal(queue.counts.dropped, 90)
  batches[0]?.store()
  await begun(2)
  batches[1]?.store()
  await Promise.all(fills)
  t.match(queue.counts, { stored: 11, dropped: 90, failed: 0 })

  const alone = queue.fill(documentOf(1.5 * 1024 * 1024))
  await begun(3)
  batches[2]?.store()
  await alone
  t.equal(queue.counts.stored, 12, 'a larger document is stored alone')
})

t.test('documents that nobody finds in Redis are stored rarely, until copies are found', async (t) => {
  const queue = createFillQueue(async (documents) => documents)
  const fill = async (count: number) => {
    const before = queue.counts.stored
    for (let n = 0; n < count; n++) await queue.fill(documentOf(10))
    return queue.counts.stored - before
  }
  t.equal(await fill(2000), 2000, 'at first all')
  t.equal(await fill(1600), 100, 'one in 16')
  for (let hits = 0; hits < 10; hits++) queue.hit()
  t.equal(await fill(160), 160, 'each copy found pays for 16')
  t.equal(await fill(16), 1)
})

t.test('a failure of Redis is counted and reaches nobody', async (t) => {
  const queue = createFillQueue(async () => {
    throw new Error('away')
  })
  await queue.fill(documentOf(10))
  t.match(queue.counts, { stored: 0, failed: 1 })
})
