import t from 'tap'
import { formatDiff } from '../../../src/cli/commands/page-changes.ts'

const diff = (before: string, after: string): string =>
  formatDiff({ name: 'a', bytes: Buffer.from(before) }, { name: 'b', bytes: Buffer.from(after) })

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
