import fc from 'fast-check'
import t from 'tap'
import { checkJson } from '../../../console/src/json/check.ts'
import { hasLongLine } from '../../../console/src/editor/long-lines.ts'
import { insertStrings } from '../../../console/src/json/insert-string.ts'
import { containerText } from '../../helpers/json-text.ts'

/**
 * Inserts strings where the text has a `|`, or in place of what is between two. Returns the new text, with
 * what is selected between bars.
 */
function insertAt (marked: string, ...values: string[]): string {
  const from = marked.indexOf('|')
  const end = marked.lastIndexOf('|')
  const text = marked.replaceAll('|', '')
  const strings = values.length === 0 ? ['u'] : values
  const { from: start, to, insert, anchor, head } = insertStrings(
    text,
    from,
    Math.max(from, end - 1),
    strings
  )
  const inserted = text.slice(0, start) + insert + text.slice(to)
  const selected = anchor === head ? '|' : `|${inserted.slice(anchor, head)}|`
  return inserted.slice(0, anchor) + selected + inserted.slice(head)
}

const INSERTED: ReadonlyArray<readonly [before: string, after: string]> = [
  // It gets what it needs at its place.
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
  ['{"asset": 1|}', '{"asset": 1, "|asset_2|": "u"}'],
  // In another string it replaces that.
  ['{"a": "|"}', '{"a": "u"|}'],
  ['{"a": "ol|d", "b": 1}', '{"a": "u"|, "b": 1}'],
  ['{"a": "|old|", "b": 1}', '{"a": "u"|, "b": 1}'],
  ['{"a": |"old"|}', '{"a": "u"|}'],
  ['["a", "say \\"hi|\\"", "c"]', '["a", "u"|, "c"]'],
  ['["a|", "b"|]', '["a", "b", "u"|]'],
  // With errors in the text, too.
  ['{"a": "ol|d,\n"b": 1}', '{"a": "u"|,\n"b": 1}'],
  ['{"a": "ol|d", "b": }', '{"a": "u"|, "b": }'],
  // In a name it becomes its value.
  ['{"ima|ge": "old", "b": 1}', '{"image": "u"|, "b": 1}'],
  ['{|"image"| : null}', '{"image" : "u"|}'],
  ['{"image|": }', '{"image": "u"|}'],
  ['{"image|"}', '{"image": "u"|}'],
  ['{"image|":\n  1.50\n}', '{"image":\n  "u"|\n}'],
  ['{"image|": old}', '{"image": "u"|}'],
  ['{"list|": ["a"], "b": 1}', '{"list": ["a", "u"|], "b": 1}'],
  ['{"list|": [\n    1\n  ]\n}', '{"list": [\n    1,\n    "u"|\n  ]\n}'],
  ['{"image|": {"alt": "x"}}', '{"image": {"alt": "x", "|asset|": "u"}}'],
  // Outside of the document it is inserted at its end.
  ['|{}', '{"|asset|": "u"}'],
  ['{"a": 1}|\n', '{"a": 1, "|asset|": "u"}\n'],
  ['|{\n  "a": [\n    1\n  ]\n}', '{\n  "a": [\n    1\n  ],\n  "|asset|": "u"\n}'],
  ['|[\n  1\n]\n', '[\n  1,\n  "u"|\n]\n'],
  // In a text with other errors it is inserted at the cursor.
  ['{"a": |, "b": }', '{"a": "u"|, "b": }'],
  ['|', '"u"|']
]

t.test('a string that is inserted gets what it needs at its place', async (t) => {
  for (const [before, after] of INSERTED) t.equal(insertAt(before), after, before)
})

t.test('several strings become elements of a list, or a list', async (t) => {
  const cases = [
    ['[|]', '["u", "v"|]', 2],
    ['["a|", 1]', '["u", "v"|, 1]', 2],
    ['[1|]', '[1, "u", "v"|]', 2],
    ['{"a": |}', '{"a": ["u", "v"]|}', 2],
    ['{"a|": }', '{"a": ["u", "v"]|}', 2],
    ['{"list|": ["a"]}', '{"list": ["a", "u", "v"|]}', 2],
    ['{|}', '{"|asset|": ["u", "v"]}', 2],
    // A website that expects one string here would break by a list.
    ['{"a": "ol|d"}', '{"a": "u"|}', 1],
    ['{"a|": "old"}', '{"a": "u"|}', 1]
  ] as const
  for (const [before, after, count] of cases) {
    t.equal(insertAt(before, 'u', 'v'), after, before)
    const at = before.indexOf('|')
    t.equal(insertStrings(before.replace('|', ''), at, at, ['u', 'v']).count, count, before)
  }
})

t.test('a document stays one, wherever strings are inserted', async () => {
  const values = fc.array(fc.string(), { minLength: 1, maxLength: 3 })
  fc.assert(fc.property(containerText, fc.nat(), values, (text, place, strings) => {
    const offset = place % (text.length + 1)
    const { from, to, insert } = insertStrings(text, offset, offset, strings)
    return checkJson(text.slice(0, from) + insert + text.slice(to)) === undefined
  }))
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
