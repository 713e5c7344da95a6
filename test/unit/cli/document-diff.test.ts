import t from 'tap'
import fc from 'fast-check'
import { formatDiff, layOut } from '../../../src/cli/document-diff.ts'
import { containerText } from '../../helpers/json-text.ts'

const diff = (before: string, after: string): string =>
  formatDiff({ name: 'a', bytes: Buffer.from(before) }, { name: 'b', bytes: Buffer.from(after) })

t.test('layOut changes only the white space between tokens', async () => {
  fc.assert(fc.property(containerText, (text) => {
    const laidOut = layOut(text)
    return laidOut.replace(/\s/g, '') === text.replace(/\s/g, '') &&
      JSON.stringify(JSON.parse(laidOut)) === JSON.stringify(JSON.parse(text)) && layOut(laidOut) === laidOut
  }))
})

t.test('layOut indents like JSON.stringify, and takes malformed text', async (t) => {
  const value = { a: [1, { b: [] }, [[]]], c: {}, 'd e': 'f, "g"' }
  t.equal(layOut(JSON.stringify(value)), `${JSON.stringify(value, null, 2)}\n`)
  for (const text of ['', ']]}', '{"a', '[1,,}', '"\\', '[['.repeat(100_000)]) {
    t.equal(layOut(text).replace(/\s/g, ''), text.replace(/\s/g, ''))
  }
})

t.test('a diff stays short', async (t) => {
  const numbers = (first: number) => JSON.stringify(Array.from({ length: 1000 }, (_, n) => first + n))
  const many = diff(numbers(0), numbers(1000)).split('\n')
  t.equal(many.length, 1 + 400 + 2)
  t.match(many.at(-2), /^… \(\d+ more lines\)$/)
  t.match(diff('["x"]', `["${'x'.repeat(3000)}"]`), /\n\+ {2}"x+… \(1005 more characters\)\n/)
  t.equal(
    diff('[]', `["${'x'.repeat(9 * 2 ** 20)}"]`),
    'There is too much to show: 2 bytes now, 9.0 MiB then.\n'
  )
})
