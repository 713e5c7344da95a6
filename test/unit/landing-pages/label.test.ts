import t from 'tap'
import fc from 'fast-check'
import { findLabel } from '../../../src/modules/landing-pages/label.ts'

// The label of a page, from the first characters of its document. The last test has the order of the members.

const cases: [what: string, document: string, label: string | null][] = [
  ['a title after other members', ' {"n":[{"title":"B"}],"o":{"title":"C"},"title" :\n"A"} ', 'A'],
  ['none in an array', '[{"title":"A"}]', null],
  ['none in nested members', '{"page":{"title":"A"}}', null],
  ['none in another case', '{"Title":"A","tit":"B","titles":"C"}', null],
  ['a name if the title is blank', '{"title":" \\t\\u00a0","name":"B"}', 'B'],
  ['an escaped name', '{"\\u0074\\u0069tle":"A","n\\u0061me":"B"}', 'A'],
  ['the last of duplicates, escaped or not', '{"title":"A","titl\\u0065":"B"}', 'B'],
  ['decoded escapes', '{"title":"\\u00e9\\n\\"\\\\\\/\\ud83d\\ude00"}', 'é\n"\\/😀'],
  ['lone surrogates as replacement characters', '{"title":"a\\ud83db\\ude00"}', 'a\ufffdb\ufffd'],
  ['the first 200 characters', JSON.stringify({ title: 'a'.repeat(201) }), 'a'.repeat(200)],
  ['whole pairs', JSON.stringify({ title: `a${'😀'.repeat(300)}` }), `a${'😀'.repeat(199)}`],
  ['whole escaped pairs', `{"title":"a${'\\ud83d\\ude00'.repeat(300)}"}`, `a${'😀'.repeat(199)}`],
  ['long strings of escapes', `{"title":"${'\\\\'.repeat(5000)}"}`, '\\'.repeat(200)]
]

for (const [what, document, label] of cases) {
  t.test(`the label is ${what}`, async (t) => {
    t.equal(findLabel(document), label)
  })
}

t.test('of a document that goes on, only what is there is searched', async (t) => {
  t.equal(findLabel('{"title":"A","big":"xxx'), 'A')
  t.equal(findLabel('{"title":"A","big":{"title":"B","c":[1,'), 'A')
  t.equal(findLabel('{"name":"A","big":"xxx'), 'A', 'a title may follow')
  t.equal(findLabel('{"big":{"title":"B'), null)
  t.equal(findLabel('{"big":"title\\"'), null)
  t.equal(findLabel('{"title"'), null)
  t.equal(findLabel('{"title":'), null)
  t.equal(findLabel('{"title":"'), null)
  t.equal(findLabel('{"title": "a long'), 'a long')
  t.equal(findLabel('{"title":"A","title":{"'), null)
  t.equal(findLabel('{"title":"A","title":fal'), null)
  t.equal(findLabel('{"title":"A","titl'), 'A')
  t.equal(findLabel(''), null)
  for (const cut of ['\\', '\\u', '\\u00e']) t.equal(findLabel(`{"title":"a\\\\${cut}`), 'a\\', cut)
})

t.test('the label of any object is that of JSON.parse, also if it is cut behind a member', async () => {
  const name = fc.constantFrom('title', 'name', 'headline', 'other', '__proto__')
  const value = fc.oneof(fc.string({ unit: 'binary' }), fc.jsonValue({ stringUnit: 'grapheme' }))
  fc.assert(fc.property(fc.array(fc.tuple(name, value)), fc.nat(), (members, place) => {
    const texts = members.map(([key, one]) => `${JSON.stringify(key)}:${JSON.stringify(one)}`)
    const before = texts.slice(0, place % (texts.length + 1))
    const json = `{${texts.join(',')}}`
    findLabel(json.slice(0, place % json.length)) // does not throw
    // Not an assertion with a random name: a line separator in a name stops tap's parser.
    return findLabel(json) === parsedLabel(texts) &&
      findLabel(`{${[...before, '"cu'].join(',')}`) === parsedLabel(before)
  }))
})

function parsedLabel (members: readonly string[]): string | null {
  const { title, name, headline } = JSON.parse(`{${members.join(',')}}`) as Record<string, unknown>
  return [title, name, headline]
    .filter((one) => typeof one === 'string')
    .map((text) => [...text].slice(0, 200).join('').toWellFormed())
    .find((text) => text.trim() !== '') ?? null
}
