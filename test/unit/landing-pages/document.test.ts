import t from 'tap'
import { findDocument } from '../../../src/modules/landing-pages/document.ts'

const find = async (body: string) => (await findDocument(body)).document

t.test('a large document is scanned in slices, and other work runs between them', async (t) => {
  const body = `{"current_data":[${'[],'.repeat(300_000)}1]}`
  let turns = 0
  let isScanned = false
  const countTurns = () => {
    turns++
    if (!isScanned) setImmediate(countTurns)
  }
  setImmediate(countTurns)
  const found = await find(body)
  isScanned = true
  t.equal(found?.text, body.slice('{"current_data":'.length, -1))
  t.ok(turns > body.length / 64 / 1024, `${turns} turns of the event loop`)
})

t.test('the slices of several documents take turns', async (t) => {
  const large = `{"current_data":["${'x'.repeat(10)}"${',[]'.repeat(100_000)}]}`
  const ended: string[] = []
  await Promise.all([
    find(large).then(() => ended.push('large')),
    find(`{"current_data":[${'1,'.repeat(30_000)}1]}`).then(() => ended.push('small'))
  ])
  t.same(ended, ['small', 'large'])
})
