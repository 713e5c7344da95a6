import t from 'tap'
import { applyJsonPatch, applyMergePatch } from '../../../../packages/json-text/src/index.ts'
import { LIMITS, refusalOf } from '../../../helpers/patches.ts'

// Documents and patches that are made to take long or to fill the memory. Each took minutes, or all memory,
// if values were copied, lists searched or levels recursed; the test's own time limit would notice. The
// service refuses what takes longer than two seconds.

const MIB = 1024 * 1024
const times = (count: number, operation: (index: number) => object): object[] =>
  Array.from({ length: count }, (_, index) => operation(index))
const add = (path: string, value: unknown = 1) => ({ op: 'add', path, value })
const copy = (from: string, path: string) => ({ op: 'copy', from, path })
const move = (from: string, path: string) => ({ op: 'move', from, path })
const replace = (path: string) => ({ op: 'replace', path, value: 1 })
const test = (value: unknown) => ({ op: 'test', path: '/v', value })
/** Two kinds of operations in turn. */
const inTurn = (count: number, even: object, odd: object) =>
  times(count, (index) => index % 2 === 0 ? even : odd)

const ELEMENTS = `[${'0,'.repeat(500_000)}0]`
const MEMBERS = `{${Array.from({ length: 80_000 }, (_, index) => `"m${index}":0`).join(',')}}`
const DEEP = `${'['.repeat(99)}${ELEMENTS.slice(0, 899_999)}0]${']'.repeat(99)}`
const OPEN = '['.repeat(MIB)
const CLOSE = ']'.repeat(MIB)
const TEXT = '{"a":{"text":"0123456789"}}'
/** They double a document again and again. */
const DOUBLING = times(40, (index) => copy('/a', `/a/${'x'.repeat(index % 7)}${index}`))

const APPLIED: readonly [what: string, document: string, operations: object[], result: string | number][] = [
  [
    '1,000 elements are put before 500,000',
    ELEMENTS,
    times(1000, () => add('/0')),
    `[${'1,'.repeat(1000)}${ELEMENTS.slice(1)}`
  ],
  [
    '1,000 elements are changed among 500,000',
    ELEMENTS,
    times(1000, (index) => replace(`/${index * 499}`)),
    ELEMENTS.length
  ],
  [
    '25 elements are moved from the end to the start, and their array is copied each time',
    `{"a":${ELEMENTS},"b":0}`,
    inTurn(50, move('/a/500000', '/a/0'), copy('/a', '/b')),
    2 * ELEMENTS.length + 11
  ],
  [
    '1,000 members are changed among 80,000',
    MEMBERS,
    times(1000, (index) => replace(`/m${index * 79}`)),
    MEMBERS.length
  ],
  [
    '1,000 members are added to 80,000',
    MEMBERS,
    times(1000, (index) => add(`/n${index + 1000}`)),
    MEMBERS.length + 1000 * ',"n1000":1'.length
  ],
  [
    'an object is copied and the copy changed',
    `{"a":${MEMBERS}}`,
    inTurn(20, copy('/a', '/b'), add('/b/m1')),
    2 * MEMBERS.length + 11
  ],
  [
    '1,000 changes are made 100 levels deep',
    DEEP,
    times(1000, () => add(`${'/0'.repeat(99)}/0`)),
    DEEP.length +
    2000
  ],
  ['copies that double the document are undone', TEXT, [...DOUBLING, replace('/a')], '{"a":1}'],
  [
    'a value of a megabyte is copied and moved 1,000 times',
    `{"v":${ELEMENTS}}`,
    inTurn(1000, copy('/v', '/w'), move('/w', '/v')),
    `{"v":${ELEMENTS}}`
  ],
  ...[`1.${'0'.repeat(MIB)}`, `0.${'0'.repeat(MIB)}1e${MIB + 1}`, `1e${'0'.repeat(MIB)}`].map((one) =>
    [`${one.slice(0, 9)}… is tested`, `{"v":${one}}`, times(10, () => test(1)), `{"v":${one}}`] as const
  )
].map((one) => [...one] as typeof APPLIED[number])

t.test('patches that take long if values are copied, lists searched or levels recursed', async (t) => {
  for (const [what, document, operations, expected] of APPLIED) {
    const result = applyJsonPatch(document, JSON.stringify(operations), { ...LIMITS, maxBytes: 3 * MIB })
    t.ok(typeof expected === 'string' ? result === expected : result.length === expected, what)
  }
  const members = Array.from(
    { length: 8000 },
    (_, index) => `"m${index * 9}":${index % 3 === 0 ? 'null' : '1'}`
  )
  const merged = applyMergePatch(MEMBERS, `{${members.join(',')}}`, LIMITS)
  t.equal(Object.keys(JSON.parse(merged)).length, 80_000 - 2667, 'a merge patch changes 8,000 members')
})

const tooDeep = /nested too deeply/
const REFUSED: readonly [document: string, operations: object[] | string, why: RegExp | number][] = [
  ['[[]]', times(999, () => copy('', '/0')), tooDeep],
  ['{"a":{},"b":{}}', inTurn(999, copy('/a', '/b/a'), copy('/b', '/a/b')), tooDeep],
  [TEXT, DOUBLING, 413],
  ['{}', `[{"op":"add","path":"/a","value":${OPEN}${CLOSE}}]`, tooDeep],
  ['{"v":1}', `[{"op":"test","path":"/v","value":${OPEN}${CLOSE}}]`, 409],
  [`${OPEN}${CLOSE}`, [], tooDeep],
  ['{}', `${OPEN}${CLOSE}`, /must be an object/],
  [DEEP, [add('/0'.repeat(30_000))], /no object or array|too deeply/],
  [`{"v":${ELEMENTS}}`, [test([0])], 409],
  [`{"v":${MEMBERS}}`, [test({ m0: 0 })], 409],
  [`{"v":"${'\\u0061'.repeat(MIB / 6)}"}`, [test('a')], 409],
  ...['1'.repeat(MIB), `0.${'0'.repeat(MIB)}1`, `1e${'9'.repeat(MIB)}`].map((number) =>
    [`{"v":${number}}`, [test(1)], 409] as const
  )
].map((one) => [...one] as typeof REFUSED[number])

t.test('what cannot be applied is refused without recursion, and in little memory', async (t) => {
  for (const [document, operations, why] of REFUSED) {
    const patch = typeof operations === 'string' ? operations : JSON.stringify(operations)
    const { status, messages: [message] } = refusalOf(() => applyJsonPatch(document, patch, LIMITS))
    t.match(typeof why === 'number' ? status : message, why, `${document.slice(0, 30)} ${patch.slice(0, 60)}`)
  }
  for (const patch of [`${'{"a":'.repeat(200_000)}null${'}'.repeat(200_000)}`, `{"a":${OPEN}${CLOSE}}`]) {
    t.match(refusalOf(() => applyMergePatch('{}', patch, LIMITS)).messages[0], tooDeep)
  }
})
