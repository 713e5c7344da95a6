import fc from 'fast-check'
import t from 'tap'
import { checkJson } from '../../../console/src/json/check.ts'
import { hasLongLine } from '../../../console/src/editor/long-lines.ts'
import { insertString, isInString } from '../../../console/src/json/insert-string.ts'
import { containerText } from '../../helpers/json-text.ts'

/** Inserts `u` where the text has a `|`. Returns the new text, with what is selected between bars. */
function insertAt (marked: string): string {
  const from = marked.indexOf('|')
  const text = marked.replace('|', '')
  const { from: start, to, insert, anchor, head } = insertString(text, from, from, 'u')
  const inserted = text.slice(0, start) + insert + text.slice(to)
  const selected = anchor === head ? '|' : `|${inserted.slice(anchor, head)}|`
  return inserted.slice(0, anchor) + selected + inserted.slice(head)
}

t.test('a string that is inserted gets what it needs at its place', async (t) => {
  const cases = [
    ['{"a": "|"}', '{"a": "u|"}'],
    ['{"a": |}', '{"a": "u"|}'],
    ['{"a": |\n "b": 1}', '{"a": "u"|,\n "b": 1}'],
    ['[|]', '["u"|]'],
    ['[1|]', '[1, "u"|]'],
    ['[1,|]', '[1,"u"|]'],
    ['[|1]', '["u"|,1]'],
    ['{|}', '{"|asset|": "u"}'],
    ['{|"a": 1}', '{"|asset|": "u","a": 1}'],
    ['{"a": 1,|"b": 2}', '{"a": 1, "|asset|": "u","b": 2}'],
    ['{"a": 1|}', '{"a": 1, "|asset|": "u"}'],
    ['{"asset": 1|}', '{"asset": 1, "|asset_2|": "u"}']
  ] as const
  for (const [before, after] of cases) t.equal(insertAt(before), after, before)
})

t.test('outside of the document, a string is inserted at its end', async (t) => {
  t.equal(insertAt('|{}'), '{"|asset|": "u"}')
  t.equal(insertAt('{"a": 1}|\n'), '{"a": 1, "|asset|": "u"}\n')
  t.equal(insertAt('|{\n  "a": [\n    1\n  ]\n}'), '{\n  "a": [\n    1\n  ],\n  "|asset|": "u"\n}')
  t.equal(insertAt('|[\n  1\n]\n'), '[\n  1,\n  "u"|\n]\n')
})

t.test('in a text with other errors, a string is inserted at the cursor', async (t) => {
  t.equal(insertAt('{"a": |, "b": }'), '{"a": "u"|, "b": }')
  t.equal(insertAt('|'), '"u"|')
})

t.test('a document stays one, wherever a string is inserted', async () => {
  fc.assert(fc.property(containerText, fc.nat(), (text, place) => {
    const offset = place % (text.length + 1)
    if (checkJson(text) !== undefined || isInString(text, offset)) return
    const { from, to, insert } = insertString(text, offset, offset, 'u')
    return checkJson(text.slice(0, from) + insert + text.slice(to)) === undefined
  }))
})

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
