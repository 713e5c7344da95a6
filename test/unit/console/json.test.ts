import fc from 'fast-check'
import t from 'tap'
import { byteLength, JsonReader } from '../../../packages/json-text/src/index.ts'
import { checkJson, findRepeatedName } from '../../../console/src/json/check.ts'
import { almostJson, containerText } from '../../helpers/json-text.ts'

function placeOf (text: string): string | undefined {
  const error = checkJson(text)
  return error && `line ${error.line}, column ${error.column}`
}

t.test('the offset of an error is where its line and column are', async () => {
  fc.assert(fc.property(almostJson, (text) => {
    const error = checkJson(text)
    if (error === undefined) return true
    const lines = text.split('\n').slice(0, error.line - 1)
    return lines.join('').length + lines.length + error.column - 1 === error.offset
  }))
})

const DEEPEST = '['.repeat(100) + ']'.repeat(100)

const START = 'A document starts with { or [, for example {"title": "Hello"}.'
const INNER_QUOTE =
  'For a quotation mark inside a text, write \\". Otherwise, a comma is missing before this.'

const ERRORS: ReadonlyArray<readonly [text: string, place: string, message: string]> = [
  ['', 'line 1, column 1', `The text is empty. ${START}`],
  ['{"price": 2,}', 'line 1, column 13', 'Remove the comma before }.'],
  ['[1, 2,\n]', 'line 2, column 1', 'Remove the comma before ].'],
  ['{"a": }', 'line 1, column 7', 'A value is missing before }.'],
  ['[1,, 2]', 'line 1, column 4', 'A value is missing before this comma.'],
  ['{"a": 1,, "b": 2}', 'line 1, column 9', 'Remove this comma.'],
  ['{\n  "price": 2\n  "name": 1\n}', 'line 3, column 3', 'A comma is missing before this.'],
  ['[01]', 'line 1, column 3', "A number can't start with 0."],
  ['[+1]', 'line 1, column 2', 'A number starts with a digit or a minus sign.'],
  ['{"a": 10,50}', 'line 1, column 10', 'Write 10.50, with a point.'],
  ['{"a": -1.234,5,\n"b": 1}', 'line 1, column 14', 'Write -1234.5, with a point.'],
  ['{"a": 1,000}', 'line 1, column 9', 'Write 1.000 with a point, or 1000 without a comma.'],
  ['{"a": 1,000,000 }', 'line 1, column 9', 'Write 1000000, without commas.'],
  ['{"a": 1, 5}', 'line 1, column 10', 'A name in double quotes is missing before "5".'],
  ['{"a": 1,5: 2}', 'line 1, column 9', 'A name in double quotes is missing before "5".'],
  ['[1.]', 'line 1, column 4', 'A digit is missing in this number.'],
  ['{"a": "The "best" one"}', 'line 1, column 13', INNER_QUOTE],
  ['{"a": "The best" and "cheapest" one"}', 'line 1, column 18', INNER_QUOTE],
  ['["a 5"-inch one", 2]', 'line 1, column 7', INNER_QUOTE],
  ['{"the "best": 1}', 'line 1, column 8', INNER_QUOTE],
  ['["a" true, "b"]', 'line 1, column 6', 'A comma is missing before this.'],
  ['["a" "b"]', 'line 1, column 6', 'A comma is missing before this.'],
  ['{"a": "b" c: "d"}', 'line 1, column 11', 'A comma is missing before this.'],
  ["{'a': 1}", 'line 1, column 2', 'Text is written in double quotes ("), no others.'],
  ['["a", “b”]', 'line 1, column 7', 'Text is written in double quotes ("), no others.'],
  ['{price: 1}', 'line 1, column 2', 'Put the name price in double quotes.'],
  ['{"a" 1}', 'line 1, column 6', 'A colon and a value are missing after the name.'],
  ['{"a": True}', 'line 1, column 7', 'Write true in small letters.'],
  ['{"a": None}', 'line 1, column 7', 'JSON has no None. Write null, or put it in double quotes.'],
  [
    '{"a": nothing}',
    'line 1, column 8',
    'Put nothing in double quotes, or write true, false, null or a number.'
  ],
  ['{} // the end', 'line 1, column 4', 'JSON has no comments. Remove this one.'],
  ['{\n"a": [1', 'line 2, column 8', 'The [ of line 2 has no end. A ] is missing.'],
  ['{"a": [1}', 'line 1, column 9', "} can't close the [ of line 1."],
  ['{}}', 'line 1, column 3', 'There is one } too many.'],
  ['{} {}', 'line 1, column 4', 'The document has ended before this. Nothing may follow.'],
  ['["open', 'line 1, column 7', 'The string has no end. A " is missing.'],
  [
    '{"a": "line\nbreak"}',
    'line 1, column 12',
    'The string has no end in this line. A " is missing, or write \\n for a line break.'
  ],
  ['["\t"]', 'line 1, column 3', 'In a string, write \\t for a tab.'],
  ['["\u0000"]', 'line 1, column 3', 'In a string, write \\u0000 for this control character.'],
  ['["C:\\dir"]', 'line 1, column 6', 'This is no escape. For a backslash, write \\\\.'],
  ['["\\u12g4"]', 'line 1, column 7', '\\u needs four hexadecimal digits, such as \\u00e9.'],
  [
    '[\u00a01]',
    'line 1, column 2',
    'Remove the invisible character \\u00a0. Outside of strings, only spaces, tabs and line breaks are ' +
    'allowed.'
  ],
  ['\n "text"', 'line 2, column 2', START],
  ['title: "Hello"', 'line 1, column 1', START],
  [`[\n${DEEPEST}]`, 'line 2, column 100', 'A document can have at most 100 levels of { } and [ ].'],
  ['["\ud83d"]', 'line 1, column 3', 'Here is half of a character. Delete it, or write \\ud83d.']
]
for (const [text, place, message] of ERRORS) {
  t.test(`says what to do about ${JSON.stringify(text).slice(0, 40)}`, async (t) => {
    t.equal(placeOf(text), place)
    t.equal(checkJson(text)?.message, message)
  })
}

t.test('accepts what the service keeps exactly', async (t) => {
  const texts = [
    DEEPEST,
    '[1e400, 1.0, -0]',
    '{"a":1,\r\n"a":2}',
    '[\r1]',
    '["\\ud800", "\u2028", "\\u0000", "\ufeff"]',
    '{"__proto__": 1}'
  ]
  for (const text of texts) t.equal(checkJson(text), undefined)
})

t.test('finds the first name that an object has already', async (t) => {
  const find = (text: string) => {
    const found = findRepeatedName(text)
    return found && `line ${found.line}, column ${found.column}: ${found.message}`
  }
  const programs = 'Programs use only one of the two values.'
  t.equal(
    find('{\n"a": {"b": 1},\n"b": [{}],\n"\\u0061": 2, "b": 3}'),
    `line 4, column 1: This name is in line 2, too. ${programs}`
  )
  t.equal(find('[{"a": 1, "a": 2}]'), `line 1, column 11: This name is in line 1, too. ${programs}`)
  t.equal(find('[{"a": 1}, {"a": {"a": "a"}}, "a", "a"]'), undefined)
  t.equal(find('{"__proto__": 1, "toString": {"__proto__": 1}}'), undefined)
})

t.test('a name is found to be repeated if JSON.parse would lose a value', async () => {
  const count = (value: unknown): number =>
    typeof value !== 'object' || value === null ? 0
      : Object.values(value).reduce((sum: number, one) => sum + 1 + count(one), 0)
  fc.assert(fc.property(containerText, (text) => {
    const reader = new JsonReader(text)
    let inAll = -1
    for (let type = reader.next(); type !== 'end'; type = reader.next()) {
      if (type !== 'name' && type !== 'close') inAll++
    }
    return (findRepeatedName(text) !== undefined) === (count(JSON.parse(text)) < inAll)
  }))
})

t.test('checks deep documents without recursion', async (t) => {
  const deep = '['.repeat(500_000)
  t.equal(checkJson(deep)?.message, 'The [ of line 1 has no end. A ] is missing.')
  t.match(checkJson(deep + ']'.repeat(500_000))?.message, /at most 100 levels/)
})

t.test('counts the bytes of a text, half of a character as its replacement', async (t) => {
  fc.assert(fc.property(
    fc.string({ unit: 'binary' }),
    (text) => byteLength(text) === Buffer.byteLength(text)
  ))
  for (const text of ['\ud83d', '\udc00', '\ud83da', '\ud83d\ud83d\udc00']) {
    t.equal(byteLength(text), Buffer.byteLength(text))
  }
})
