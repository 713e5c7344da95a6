import fc from 'fast-check'
import t from 'tap'
import { hasLongLine } from '../../../console/src/editor/long-lines.ts'
import { isInString } from '../../../console/src/json/is-in-string.ts'
import { containerText } from '../../helpers/json-text.ts'

const STRING = /"(?:[^"\\]|\\.)*"/g

t.test('finds whether a place is in a string', async () => {
  fc.assert(fc.property(containerText, fc.nat(), (text, place) => {
    const offset = place % (text.length + 1)
    const isInside = [...text.matchAll(STRING)].some(({ 0: found, index }) =>
      index < offset && offset < index + found.length
    )
    // After a backslash, there is no place for a quote of its own.
    return text[offset - 1] === '\\' || isInString(text, offset) === isInside
  }))
})

t.test('a line break ends a string that has no end', async (t) => {
  t.equal(isInString('["open, \n1', 10), false)
})

t.test('a line is long with more than 200,000 characters', async (t) => {
  const limit = 'x'.repeat(200_000)
  t.equal(hasLongLine(limit), false)
  t.equal(hasLongLine(`${limit}\n${limit}\n`), false)
  t.equal(hasLongLine(`${limit}x`), true)
  t.equal(hasLongLine(`${limit}\n${limit}x`), true)
  t.equal(hasLongLine(`\n${limit}x\n`), true)
  t.equal(hasLongLine('x\n'.repeat(400_000)), false)
})
