import fc from 'fast-check'
import t from 'tap'
import { formatJson, formatPointer, JsonReader, JsonSyntaxError, parsePointer, readJson,
  type JsonNode } from '../../../packages/json-text/src/index.ts'
import { almostJson, containerText, spacedText } from '../../helpers/json-text.ts'

/** The place of the first error; undefined if there is none. */
function findError (text: string): string | undefined {
  const reader = new JsonReader(text)
  try {
    while (reader.next() !== 'end');
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

t.test('the reader accepts exactly what JSON.parse accepts', async () => {
  fc.assert(fc.property(almostJson, (text) => (findError(text) === undefined) === isJson(text)), {
    numRuns: 3000
  })
})

t.test('skipping a valid object or array ends where reading it ends', async () => {
  fc.assert(fc.property(containerText, (text) => {
    const [read, skipped] = [new JsonReader(`[${text},1]`), new JsonReader(`[${text},1]`)]
    for (const reader of [read, skipped]) for (let n = 0; n < 2; n++) reader.next()
    read.skip()
    skipped.skipValid()
    return read.end === skipped.end && read.depth === skipped.depth && skipped.next() === 'number'
  }))
})

t.test('the place of an error is where reading stopped, also after the regular expression', async (t) => {
  // test/unit/console/json.test.ts has the places of all other errors.
  const cases = [
    ['  ', 'line 1, column 3'],
    ['1,', 'line 1, column 2'],
    ['[1e+]', 'line 1, column 5'],
    ['"long enough to be read by the regular expression\t"', 'line 1, column 50'],
    ['"long enough to be read by the regular expression\\x"', 'line 1, column 51']
  ] as const
  for (const [text, place] of cases) t.equal(findError(text), place, text)
})

t.test('strings have any length and any number of escapes', async (t) => {
  const texts = [
    'x'.repeat(500_000),
    '\\n'.repeat(500_000),
    '\\u00e9x'.repeat(100_000),
    `${'x'.repeat(40)}\\"`
  ]
  for (const text of texts) t.equal(findError(`["${text}"]`), undefined)
})

t.test('deep nesting is read without recursion', async (t) => {
  const deep = '['.repeat(500_000) + ']'.repeat(500_000)
  t.equal(readJson(deep).levels, 500_000)
})

/** Rebuilds a value from the slices of its scalars. Of repeated names the last one counts. */
function toValue (text: string, node: JsonNode): unknown {
  if (node.type === 'array') return node.elements.map((element) => toValue(text, element))
  if (node.type !== 'object') return JSON.parse(text.slice(node.start, node.end))
  return Object.fromEntries(node.members.map(({ name, nameStart, nameEnd, value }) => {
    if (JSON.parse(text.slice(nameStart, nameEnd)) !== name) throw new Error(`${name} is not at ${nameStart}`)
    return [name, toValue(text, value)]
  }))
}

t.test('the tree has the values that JSON.parse finds, and their places', async (t) => {
  fc.assert(
    fc.property(spacedText, (text) => {
      const root = readJson(text)
      t.same(toValue(text, root), JSON.parse(text))
      t.equal(text.slice(root.start, root.end), text.replace(/^[ \t\r\n]+|[ \t\r\n]+$/g, ''))
    }),
    { numRuns: 1000 }
  )
})

/** All tokens; only white space between tokens is left out. */
const tokensOf = (text: string): string[] => text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? []

t.test('formatting keeps all tokens', async () => {
  fc.assert(fc.property(
    containerText,
    (text) => JSON.stringify(tokensOf(formatJson(text))) === JSON.stringify(tokensOf(text))
  ))
})

t.test('formats as JSON.stringify does', async () => {
  fc.assert(fc.property(
    fc.json(),
    (text) => formatJson(text) === JSON.stringify(JSON.parse(text), null, 2) || /"__proto__"|-0/.test(text)
  ))
})

t.test('formatting keeps digits, escapes, order and duplicate names', async (t) => {
  t.equal(
    formatJson('\r\n{"b":1e400,"a":1.0, "a" :[ ],"\\u0061":{\n},"c":["\\ud800\\/",-0]} '),
    `{
  "b": 1e400,
  "a": 1.0,
  "a": [],
  "\\u0061": {},
  "c": [
    "\\ud800\\/",
    -0
  ]
}`
  )
  t.equal(formatJson('[[[1]]]', 1), '[\n  [\n  [\n  1\n  ]\n  ]\n]')
})

t.test('pointers are parsed and formatted', async (t) => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: fc.constantFrom('~', '/', '0', '1', 'a') })), (names) => {
      t.same(parsePointer(formatPointer(names)), names)
    }),
    { numRuns: 200 }
  )
  t.same(parsePointer('/~01//a~1b'), ['~1', '', 'a/b'])
  for (const text of ['a', '/~', '/~2', '#/a', '/a~~0']) t.equal(parsePointer(text), undefined)
})
