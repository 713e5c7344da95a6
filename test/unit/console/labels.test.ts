import fc from 'fast-check'
import t from 'tap'
import { findLabel, nameOf } from '../../../console/src/core/labels.ts'
import { findLabel as findLabelInService } from '../../../src/modules/landing-pages/label.ts'
import { containerText, stringText } from '../../helpers/json-text.ts'

const member = fc.tuple(
  fc.constantFrom('"title"', '"name"', '"headline"', '"\\u006eame"', '"other"'),
  fc.oneof(stringText, containerText, fc.constantFrom('null', '1', '""', '" "', '"A name"'))
)
  .map((parts) => parts.join(': '))
const document = fc.array(member, { maxLength: 6 }).map((members) => `{${members.join(', ')}}`)

t.test('a document has the label that the service gives it', async () => {
  fc.assert(fc.property(
    fc.oneof(document, containerText),
    (text) => findLabel(text) === findLabelInService(text)
  ))
})

t.test('a label has at most 200 characters', async (t) => {
  const text = JSON.stringify({ title: '\u{1f600}'.repeat(300) })
  t.equal(findLabel(text), '\u{1f600}'.repeat(200))
  t.equal(findLabel(text), findLabelInService(text))
})

t.test('a page whose label nobody can see is called by its public id', async (t) => {
  t.equal(nameOf('A page', 'id'), 'A page')
  t.equal(nameOf('\u200b\u202e\u00a0', 'id'), 'id')
  t.equal(nameOf(null, 'id'), 'id')
})
