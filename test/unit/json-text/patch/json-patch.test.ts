import { createRequire } from 'node:module'
import t from 'tap'
import { applyJsonPatch } from '../../../../packages/json-text/src/index.ts'
import { LIMITS, refusalOf } from '../../../helpers/patches.ts'

// JSON Patch on the text of documents: what the result looks like, and why a patch is refused.

/** The official test suite, and RFC 6902's own examples. */
interface Case {
  readonly comment?: string
  readonly doc: unknown
  readonly patch: unknown
  readonly expected?: unknown
  readonly error?: string
  readonly disabled?: boolean
}
const suite = createRequire(import.meta.url)
const CASES = ['tests', 'spec_tests'].flatMap((file) => suite(`json-patch-test-suite/${file}.json`) as Case[])

t.test('the official test suite', async (t) => {
  t.ok(CASES.length > 90)
  for (const { comment, doc, patch, expected, error } of CASES.filter(({ disabled }) => disabled !== true)) {
    const name = `${comment ?? ''} ${JSON.stringify(patch)}`
    for (const indent of [0, 2]) {
      const [json, patchJson] = [JSON.stringify(doc, null, indent), JSON.stringify(patch, null, indent)]
      if (error !== undefined) {
        t.equal(refusalOf(() => applyJsonPatch(json, patchJson, LIMITS)).name, 'PatchError', name)
      } else t.same(JSON.parse(applyJsonPatch(json, patchJson, LIMITS)), expected ?? doc, name)
    }
  }
})

const apply = (document: string, ...operations: string[]): string =>
  applyJsonPatch(document, `[${operations.join(', ')}]`, LIMITS)

const messagesOf = (document: string, ...operations: string[]): readonly string[] =>
  refusalOf(() => apply(document, ...operations)).messages

const LINES = '{\n  "a": 1,\n  "b": 2\n}'
const REMOVE_A = '{"op":"remove","path":"/a"}'
const REMOVE_B = '{"op":"remove","path":"/b"}'
const ADD_C = '{"op":"add","path":"/c","value":3}'
const COPY_A = '{"op":"copy","from":"/a","path":"/c"}'
const FIRST = '{"op":"remove","path":"/0"}'
const insert = (place: number | string): string => `{"op":"add","path":"/${place}","value":0}`

const SPACING: ReadonlyArray<readonly [document: string, operations: string[], expected: string]> = [
  [LINES, [REMOVE_A], '{\n  "b": 2\n}'],
  [LINES, [REMOVE_B], '{\n  "a": 1\n}'],
  [LINES, [REMOVE_A, REMOVE_B], '{}'],
  [LINES, [ADD_C], '{\n  "a": 1,\n  "b": 2,\n  "c": 3\n}'],
  [LINES, [REMOVE_A, ADD_C], '{\n  "b": 2,\n  "c": 3\n}'],
  [LINES, [REMOVE_A, REMOVE_B, ADD_C], '{\n  "c": 3\n}'],
  ['{\r\n\t"a" : 1\r\n}', ['{"op":"add","path":"/b","value":2}'], '{\r\n\t"a" : 1,\r\n\t"b" : 2\r\n}'],
  ['{ "a": 1 }', ['{"op":"add","path":"/b","value":2}'], '{ "a": 1, "b": 2 }'],
  ['{"a": 1}', ['{"op":"add","path":"/b","value":2}'], '{"a": 1, "b": 2}'],
  ['{"a":1}', ['{"op":"add","path":"/b","value":2}'], '{"a":1,"b":2}'],
  ['{"a": {}}', ['{"op":"add","path":"/a/b","value":2}'], '{"a": {"b":2}}'],
  ['{ }', ['{"op":"add","path":"/b","value":2}'], '{ "b":2 }'],
  ['[1, 2, 3]', [FIRST], '[2, 3]'],
  ['[1, 2, 3]', ['{"op":"remove","path":"/2"}'], '[1, 2]'],
  ['[1, 2, 3]', [insert(0)], '[0, 1, 2, 3]'],
  ['[1, 2, 3]', [insert('-')], '[1, 2, 3, 0]'],
  ['[1, 2, 3]', [FIRST, insert(0)], '[0, 2, 3]'],
  ['[1, 2, 3]', [insert(0), '{"op":"remove","path":"/1"}'], '[0, 2, 3]'],
  ['[\n  1,\n  2\n]', [insert(1), insert(0)], '[\n  0,\n  1,\n  0,\n  2\n]'],
  ['[ 1\n, 2\n, 3\n]', ['{"op":"remove","path":"/2"}'], '[ 1\n, 2\n]'],
  ['[ 1\n, 2\n]', [insert('-')], '[ 1\n, 2\n, 0\n]'],
  ['[\n  1\n]', [insert('-')], '[\n  1,\n  0\n]'],
  ['[]', [insert('-'), insert('-')], '[0,0]'],
  [' \n{"a": [] }\t', [ADD_C], ' \n{"a": [], "c": 3 }\t']
]

t.test('what is added and removed follows the spacing around it', async (t) => {
  for (const [document, operations, expected] of SPACING) {
    t.equal(apply(document, ...operations), expected, `${document} after ${operations.join(', ')}`)
  }
})

t.test('a new value keeps its text, and members that RFC 6902 does not define are ignored', async (t) => {
  const operation = '{"op":"add","path":"/a","value":{ "\\u0062" :\n[1 ,2] },"x":1,"from":2}'
  t.equal(apply('\r\n {"b":1e400}\n', operation), '\r\n {"b":1e400,"a":{ "\\u0062" :\n[1 ,2] }}\n')
  t.equal(apply(LINES, '{"op":"move","from":"/a","path":"/\\u0061"}'), LINES)
})

const EQUAL: ReadonlyArray<readonly [a: string, b: string]> = [
  ['1', '1.0'],
  ['100', '1E+2'],
  ['-0', '0'],
  ['0', '0.00e999'],
  ['1e400', '0.1e401'],
  ['-1.50e-0400', '-15e-401'],
  ['1e123456789012345678901234567890', '10e123456789012345678901234567889'],
  ['10e-123456789012345678901234567890', '1e-123456789012345678901234567889'],
  ['"a\\u0062"', '"\\u0061b"'],
  ['"\\ud83d\\ude00"', '"😀"'],
  ['{"a":1,"b":[2]}', '{ "b": [ 2.0 ], "\\u0061": 1 }'],
  ['{"__proto__":1}', '{"\\u005f_proto__":1}'],
  ['[null,true,false]', '[ null, true, false ]']
]

const DIFFERENT: ReadonlyArray<readonly [a: string, b: string]> = [
  ['12345678901234567890', '12345678901234567891'],
  ['1e400', '1e401'],
  ['1', '-1'],
  ['1e-400', '0'],
  ['1e123456789012345678901234567890', '1e123456789012345678901234567891'],
  ['1e123456789012345678901234567890', '1e-123456789012345678901234567890'],
  ['null', 'false'],
  ['"1"', '1'],
  ['"\\ud800"', '"\ufffd"'],
  ['"é"', '"e\u0301"'],
  ['[]', '{}'],
  ['[1,2]', '[2,1]'],
  ['{"a":1,"b":1}', '{"a":1}'],
  ['{"a":1,"b":1}', '{"a":1,"c":1}']
]

t.test('a test compares numbers exactly, strings decoded, and objects in any order', async (t) => {
  for (const pair of EQUAL) {
    for (const [a, b] of [pair, [...pair].reverse()]) {
      t.equal(apply(`{"v":${a}}`, `{"op":"test","path":"/v","value":${b}}`), `{"v":${a}}`, `${a} is ${b}`)
    }
  }
  for (const pair of DIFFERENT) {
    for (const [a, b] of [pair, [...pair].reverse()]) {
      const { status, messages } = refusalOf(() =>
        apply(`{"v":${a}}`, `{"op":"test","path":"/v","value":${b}}`)
      )
      t.equal(status, 409)
      t.same(messages, ['Operation 1 (test "/v"): the value is different'], `${a} is not ${b}`)
    }
  }
})

t.test('a test sees the changes of the operations before it', async (t) => {
  const value = '{"a":[1,2],"b":{"c":1,"d":2,"e":3}}'
  const operations = [
    '{"op":"add","path":"/a/0","value":0}',
    '{"op":"remove","path":"/b/d"}',
    '{"op":"replace","path":"/b/c","value":9}'
  ]
  const expected = '{"b":{"e":3,"c":9},"a":[0,1,2]}'
  t.same(
    JSON.parse(apply(value, ...operations, `{"op":"test","path":"","value":${expected}}`)),
    JSON.parse(expected)
  )
  t.same(messagesOf(value, ...operations, `{"op":"test","path":"","value":${value}}`), [
    'Operation 4 (test ""): the value is different'
  ])
})

const DEEP = `${'['.repeat(99)}${']'.repeat(99)}`

const NOTHING = 'there is nothing at this path'
const NOWHERE = 'there is no object or array to add it to'
const ITSELF = 'a value can not be moved into itself'
const TWICE = 'the name "a" occurs more than once in its object'
const TOO_DEEP = 'the document would be nested too deeply (maximum is 100 levels)'

const REFUSED: readonly (readonly [document: string, operation: string, where: string, why: string])[] = [
  ['{"price":[]}', REMOVE_A, 'remove "/a"', NOTHING],
  ['{"price":[]}', '{"op":"replace","path":"/price/0","value":1}', 'replace "/price/0"', NOTHING],
  ['{"a":1}', '{"op":"test","path":"/b","value":1}', 'test "/b"', NOTHING],
  ['{"a":"x"}', '{"op":"remove","path":"/a/0"}', 'remove "/a/0"', NOTHING],
  ['[1]', '{"op":"remove","path":"/-"}', 'remove "/-"', NOTHING],
  ['{"a":1}', '{"op":"add","path":"/b/c","value":1}', 'add "/b/c"', NOWHERE],
  ['{"a":1}', '{"op":"add","path":"/a/c","value":1}', 'add "/a/c"', NOWHERE],
  ['[1]', insert(2), 'add "/2"', 'the array has only 1 element'],
  ['[1]', insert('01'), 'add "/01"', '"01" is no index of an array'],
  ['{"b":1}', COPY_A, 'copy "/a" to "/c"', 'there is nothing at "/a"'],
  ['{"a":{"b":1}}', '{"op":"move","from":"/a","path":"/a/b"}', 'move "/a" to "/a/b"', ITSELF],
  ['{"a":{"b":1}}', '{"op":"move","from":"","path":"/a"}', 'move "" to "/a"', ITSELF],
  ['{"a":1}', '{"op":"remove","path":""}', 'remove ""', 'the whole document can not be removed'],
  [
    '{"a":1}',
    '{"op":"copy","from":"/a","path":""}',
    'copy "/a" to ""',
    'the document must be a JSON object or array'
  ],
  ['{"a":1,"\\u0061":2}', REMOVE_A, 'remove "/a"', TWICE],
  ['{"a":1,"a":2}', '{"op":"add","path":"/a","value":1}', 'add "/a"', TWICE],
  ['{"b":{"a":{},"a":{}}}', '{"op":"add","path":"/b/a/c","value":1}', 'add "/b/a/c"', TWICE],
  ['{"v":{"a":1,"a":1}}', '{"op":"test","path":"/v","value":{"a":1,"a":1}}', 'test "/v"', TWICE],
  ['{"v":{"a":1}}', '{"op":"test","path":"/v","value":{"a":1,"a":1}}', 'test "/v"', TWICE],
  ['{"a":1}', `{"op":"add","path":"/a","value":[${DEEP}]}`, 'add "/a"', TOO_DEEP],
  [`{"a":${DEEP}}`, '{"op":"copy","from":"","path":"/b"}', 'copy "" to "/b"', TOO_DEEP],
  [
    '{"a":{"b":[[]]}}',
    `{"op":"add","path":"/a/b/0/0","value":${DEEP.slice(2, -2)}}`,
    'add "/a/b/0/0"',
    TOO_DEEP
  ]
]

t.test('what can not be done is refused with the operation and the reason', async (t) => {
  for (const [document, operation, where, why] of REFUSED) {
    const { status, messages } = refusalOf(() =>
      apply(document, operation, '{"op":"test","path":"","value":1}')
    )
    t.same([status, messages], [422, [`Operation 1 (${where}): ${why}`]])
  }
})

t.test('a malformed patch gets a sentence for each problem', async (t) => {
  const malformed =
    '{"path":"a"}, 1, {"op":"add","path":"/a"}, {"op":"copy","path":7}, {"op":"spam","path":"/~2"}, ' +
    '{"op":"test","path":"/a","value":1,"value":2}'
  t.same(messagesOf('{}', malformed), [
    'Operation 1: "op" must be "add", "remove", "replace", "move", "copy" or "test"',
    'Operation 1: "path" must be a JSON Pointer, such as "/title" or "/prices/0"',
    'Operation 2: it must be an object with "op" and "path"',
    'Operation 3: "value" is missing',
    'Operation 4: "path" must be a JSON Pointer, such as "/title" or "/prices/0"',
    'Operation 4: "from" is missing',
    'Operation 5: "op" must be "add", "remove", "replace", "move", "copy" or "test"',
    'Operation 5: "path" must be a JSON Pointer, such as "/title" or "/prices/0"',
    'Operation 6: it has the name "value" more than once'
  ])
  t.same(refusalOf(() => applyJsonPatch('{}', '{}', LIMITS)).messages, [
    'A JSON Patch must be an array of operations'
  ])
})

t.test('a patch has at most 1,000 operations', async (t) => {
  const tests = (count: number): string[] => Array(count).fill('{"op":"test","path":"","value":{}}')
  t.equal(apply('{}', ...tests(1000)), '{}')
  t.same(messagesOf('{}', ...tests(1001)), ['A JSON Patch can have at most 1000 operations'])
})

t.test('the result has at most 100 levels and maxBytes bytes', async (t) => {
  t.equal(apply('{}', `{"op":"add","path":"/a","value":${DEEP}}`), `{"a":${DEEP}}`)
  t.equal(apply(`{"a":${DEEP}}`, REMOVE_A, '{"op":"copy","from":"","path":"/b"}'), '{"b":{}}')
  const limits = { maxBytes: 12, maxLevels: 100 }
  t.equal(applyJsonPatch('{"a":1}', '[{"op":"replace","path":"/a","value":"äü"}]', limits), '{"a":"äü"}')
  const { status } = refusalOf(() =>
    applyJsonPatch('{"a":1}', '[{"op":"replace","path":"/a","value":"äü€"}]', limits)
  )
  t.equal(status, 413)
})

t.test('long paths are cut in sentences', async (t) => {
  const [message = ''] = messagesOf('{}', `{"op":"remove","path":"/${'x'.repeat(10_000)}"}`)
  t.match(message, /^Operation 1 \(remove "\/x{99}…"\): there/)
})
