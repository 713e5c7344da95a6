import fc from 'fast-check'
import t from 'tap'
import { findDocument, type FoundDocument } from '../../../src/modules/landing-pages/document.ts'
import { containerText, space, stringText, valueText } from '../../helpers/json-text.ts'

const find = async (body: string): Promise<FoundDocument | undefined> => (await findDocument(body)).document

// Property tests: findDocument() returns exactly the text that was sent, for documents of any shape.

const otherMember = fc.tuple(
  stringText.filter((name) => !['current_data', 'landing_page'].includes(JSON.parse(name))),
  valueText
).map(([name, value]) => `${name}:${value}`)
const envelope = (members: string[], a: string, b: string): string => `${a}{${members.join(`${b},${a}`)}}${b}`
const keyText = (name: string) =>
  fc.constantFrom(`"${name}"`, `"\\u00${name.charCodeAt(0).toString(16)}${name.slice(1)}"`)

t.test('a document at the top level is found among other members', async () => {
  await fc.assert(
    fc.asyncProperty(
      containerText,
      keyText('current_data'),
      fc.array(otherMember, { maxLength: 3 }),
      fc.array(otherMember, { maxLength: 3 }),
      space,
      space,
      async (document, key, before, after, a, b) => {
        const body = envelope([...before, `${key}${a}:${b}${document}`, ...after], a, b)
        JSON.parse(body)
        const found = await find(body)
        return found?.text === document
      }
    ),
    { numRuns: 2000 }
  )
})

t.test('a document inside landing_page is found among other members', async () => {
  await fc.assert(
    fc.asyncProperty(
      containerText,
      keyText('landing_page'),
      fc.array(otherMember, { maxLength: 3 }),
      space,
      space,
      async (document, key, others, a, b) => {
        const body = envelope(
          [...others, `${key}:${envelope([...others, `"current_data":${document}`], a, b)}`, ...others],
          b,
          a
        )
        return (await find(body))?.text === document
      }
    ),
    { numRuns: 1000 }
  )
})

t.test('of duplicate members the last one counts, as in JSON.parse, and the top level comes first', async () => {
  const member = fc.oneof(
    valueText.map((value) => `"current_data":${value}`),
    valueText.map((value) => `"landing_page":${value}`),
    valueText.map((value) => `"landing_page":{"current_data":${value}}`),
    otherMember
  )
  await fc.assert(
    fc.asyncProperty(fc.array(member, { maxLength: 6 }), async (members) => {
      const body = `{${members.join(',')}}`
      const parsed = JSON.parse(body)
      const inner = typeof parsed.landing_page === 'object' && parsed.landing_page !== null &&
          !Array.isArray(parsed.landing_page) ? parsed.landing_page : {}
      const own = (object: object) => Object.hasOwn(object, 'current_data')
      const expected = own(parsed) ? parsed.current_data : own(inner) ? inner.current_data : undefined
      const found = await find(body)
      return JSON.stringify(found === undefined ? undefined : JSON.parse(found.text)) ===
        JSON.stringify(expected)
    }),
    { numRuns: 2000 }
  )
})

t.test('the depth is the number of nested objects and arrays', async () => {
  await fc.assert(
    fc.asyncProperty(
      containerText,
      async (document) =>
        (await find(`{"before":[[[[]]]],"current_data":${document},"after":[[[[]]]]}`))?.depth ===
          depthOfText(document)
    ),
    { numRuns: 1000 }
  )
})

/** Counts brackets outside strings, so that members replaced by a later duplicate count, too. */
function depthOfText (text: string): number {
  let depth = 0
  let deepest = 0
  for (const bracket of text.replaceAll(/"(\\.|[^"\\])*"/g, '').match(/[[\]{}]/g) ?? []) {
    depth += bracket === '[' || bracket === '{' ? 1 : -1
    deepest = Math.max(deepest, depth)
  }
  return deepest
}

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
  t.equal(found?.depth, 2)
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
