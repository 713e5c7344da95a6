import fc from 'fast-check'
import t from 'tap'
import { JsonScanner, JsonSyntaxError } from '../../../src/http/json-scanner.ts'

const ignore = { name () {}, value () {} }

/** The place of the first error; undefined if there is none. */
function scan (text: string, sliceBytes = Infinity): string | undefined {
  const scanner = new JsonScanner(Buffer.from(text), ignore)
  try {
    while (!scanner.advance(sliceBytes));
    return undefined
  } catch (error) {
    if (error instanceof JsonSyntaxError) return error.message
    throw error
  }
}

function isJson (text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** JSON text in which one character is replaced, removed or inserted: about half of it is still JSON. */
const almostJson = fc.tuple(
  fc.json({ maxDepth: 4 }),
  fc.nat(),
  fc.constantFrom(0, 1),
  fc.oneof(
    fc.constantFrom(...'{}[],:"\\+-.eE0123456789tfnu \t\n\r\u0000\u001f\u007f', ''),
    fc.string({ unit: 'grapheme' })
  )
)
  .map(([text, place, removed, inserted]) => {
    const at = place % (text.length + 1)
    return (text.slice(0, at) + inserted + text.slice(at + removed)).toWellFormed()
  })

t.test('the scanner accepts exactly what JSON.parse accepts', async () => {
  fc.assert(fc.property(almostJson, (text) => (scan(text) === undefined) === isJson(text)), {
    numRuns: 20_000
  })
})

t.test('the result does not depend on the size of the slices', async () => {
  fc.assert(
    fc.property(almostJson, fc.integer({ min: 1, max: 5 }), (text, size) => scan(text, size) === scan(text)),
    { numRuns: 2000 }
  )
})

const CASES: ReadonlyArray<readonly [text: string, place: string]> = [
  ['', 'line 1, column 1'],
  ['  ', 'line 1, column 3'],
  ['{"price": 2,}', 'line 1, column 13'],
  ['{\n  "price": 2\n  "name": 1\n}', 'line 3, column 3'],
  ['["ä", 01]', 'line 1, column 8'],
  ['[1, 2', 'line 1, column 6'],
  ["{'a': 1}", 'line 1, column 2'],
  ['{"a": "line\nbreak"}', 'line 1, column 12'],
  ['{"a": "\\x"}', 'line 1, column 9'],
  ['{"a": "\\u12g4"}', 'line 1, column 12'],
  ['{"a": nul}', 'line 1, column 10'],
  ['{"a": 1} x', 'line 1, column 10'],
  ['[1.]', 'line 1, column 4'],
  ['[1e+]', 'line 1, column 5'],
  ['[-]', 'line 1, column 3'],
  ['"open', 'line 1, column 6']
]
for (const [text, place] of CASES) {
  t.test(`the first error of ${JSON.stringify(text)} is at ${place}`, async (t) => {
    t.equal(scan(text), place)
  })
}

t.test('deep nesting is scanned without recursion', async (t) => {
  t.equal(scan('['.repeat(500_000) + ']'.repeat(500_000)), undefined)
})
