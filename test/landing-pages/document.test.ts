import fc from 'fast-check'
import t from 'tap'
import { findDocument } from '../../src/landing-pages/document.ts'

// Properties: whatever the document and however it is written, what is found is what was sent.

const space = fc.string({ unit: fc.constantFrom(' ', '\t', '\n', '\r'), maxLength: 3 })

/** A string in one of the many ways of writing it: each character as itself or as an escape. */
const stringText = fc.array(fc.tuple(fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }), fc.boolean()), { maxLength: 8 })
  .map((parts) => `"${parts.map(([character, escaped]) => escaped || character < ' ' || character === '"' || character === '\\' || !character.isWellFormed() ? escape(character) : character).join('')}"`)
const escape = (text: string): string => Array.from({ length: text.length }, (_, index) => `\\u${text.charCodeAt(index).toString(16).padStart(4, '0')}`).join('')
const numberText = fc.tuple(fc.constantFrom('', '-'), fc.constantFrom('0', '1', '10', '12345678901234567890'), fc.constantFrom('', '.0', '.10', '.000000000000000000001'), fc.constantFrom('', 'e400', 'E+2', 'e-7'))
  .map((parts) => parts.join(''))

/** JSON text of any shape, with white space wherever it may be. */
const { value: valueText, container: containerText } = fc.letrec<{ value: string, container: string }>((tie) => ({
  value: fc.oneof({ depthSize: 'small', withCrossShrink: true }, fc.constantFrom('null', 'true', 'false'), numberText, stringText, tie('container')),
  container: fc.oneof(
    fc.array(fc.tuple(space, tie('value'), space), { maxLength: 4 }).map((items) => `[${items.map((item) => item.join('')).join(',')}]`),
    fc.array(fc.tuple(space, fc.oneof(stringText, fc.constantFrom('"current_data"', '"landing_page"', '"__proto__"')), space, space, tie('value'), space), { maxLength: 4 })
      .map((members) => `{${members.map(([a, name, b, c, value, d]) => `${a}${name}${b}:${c}${value}${d}`).join(',')}}`)
  )
}))

const otherMember = fc.tuple(stringText.filter((name) => !['current_data', 'landing_page'].includes(JSON.parse(name))), valueText).map(([name, value]) => `${name}:${value}`)
const envelope = (members: string[], a: string, b: string): string => `${a}{${members.join(`${b},${a}`)}}${b}`
const keyText = (name: string) => fc.constantFrom(`"${name}"`, `"\\u00${name.charCodeAt(0).toString(16)}${name.slice(1)}"`)

t.test('at the top, among other members', async () => {
  fc.assert(fc.property(containerText, keyText('current_data'), fc.array(otherMember, { maxLength: 3 }), fc.array(otherMember, { maxLength: 3 }), space, space, (document, key, before, after, a, b) => {
    const body = envelope([...before, `${key}${a}:${b}${document}`, ...after], a, b)
    JSON.parse(body)
    const found = findDocument(body)
    return found?.text === document && found.isContainer
  }), { numRuns: 2000 })
})

t.test('inside of landing_page', async () => {
  fc.assert(fc.property(containerText, keyText('landing_page'), fc.array(otherMember, { maxLength: 3 }), space, space, (document, key, others, a, b) => {
    const body = envelope([...others, `${key}:${envelope([...others, `"current_data":${document}`], a, b)}`, ...others], b, a)
    return findDocument(body)?.text === document
  }), { numRuns: 1000 })
})

t.test('the choice is the one that JSON.parse would make, and the top wins', async () => {
  const member = fc.oneof(valueText.map((value) => `"current_data":${value}`), valueText.map((value) => `"landing_page":${value}`), valueText.map((value) => `"landing_page":{"current_data":${value}}`), otherMember)
  fc.assert(fc.property(fc.array(member, { maxLength: 6 }), (members) => {
    const body = `{${members.join(',')}}`
    const parsed = JSON.parse(body)
    const inner = typeof parsed.landing_page === 'object' && parsed.landing_page !== null && !Array.isArray(parsed.landing_page) ? parsed.landing_page : {}
    const own = (object: object) => Object.hasOwn(object, 'current_data')
    const expected = own(parsed) ? parsed.current_data : own(inner) ? inner.current_data : undefined
    const found = findDocument(body)
    return JSON.stringify(found === undefined ? undefined : JSON.parse(found.text)) === JSON.stringify(expected)
  }), { numRuns: 2000 })
})

t.test('depth counts levels of objects and arrays', async () => {
  fc.assert(fc.property(containerText, (document) => findDocument(`{"current_data":${document}}`)?.depth === depthOfText(document)), { numRuns: 1000 })
})

/** By brackets outside of strings, so that members hidden by a later one of the same name count, too. */
function depthOfText (text: string): number {
  let depth = 0
  let deepest = 0
  for (const bracket of text.replaceAll(/"(\\.|[^"\\])*"/g, '').match(/[[\]{}]/g) ?? []) {
    depth += bracket === '[' || bracket === '{' ? 1 : -1
    deepest = Math.max(deepest, depth)
  }
  return deepest
}
