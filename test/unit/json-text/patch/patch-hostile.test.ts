import t from 'tap'
import { applyJsonPatch, applyMergePatch } from '../../../../packages/json-text/src/index.ts'
import { LIMITS, refusalOf } from '../../../helpers/patches.ts'

// Documents and patches that are made to take long or to fill the memory. Each took minutes, or all memory,
// if values were copied, lists searched or levels recursed; the test's own time limit would notice. The
// service refuses what takes longer than two seconds.

const MIB = 1024 * 1024
const patchOf = (operations: readonly object[]): string => JSON.stringify(operations)
const times = (count: number, operation: (index: number) => object): object[] =>
  Array.from({ length: count }, (_, index) => operation(index))

const ELEMENTS = `[${'0,'.repeat(500_000)}0]`
const MEMBERS = `{${Array.from({ length: 80_000 }, (_, index) => `"m${index}":0`).join(',')}}`
const DEEP = `${'['.repeat(99)}${ELEMENTS.slice(0, 899_999)}0]${']'.repeat(99)}`
const inDepth = '/0'.repeat(99)

t.test('1,000 elements are put before 500,000', async (t) => {
  const result = applyJsonPatch(
    ELEMENTS,
    patchOf(times(1000, () => ({ op: 'add', path: '/0', value: 1 }))),
    LIMITS
  )
  t.ok(result === `[${'1,'.repeat(1000)}${ELEMENTS.slice(1)}`)
})

t.test('1,000 elements are changed among 500,000', async (t) => {
  const patch = patchOf(times(1000, (index) => ({ op: 'replace', path: `/${index * 499}`, value: 1 })))
  t.equal(applyJsonPatch(ELEMENTS, patch, LIMITS).length, ELEMENTS.length)
})

t.test('25 elements are moved from the end to the start, and their array is copied each time', async (t) => {
  const patch = patchOf(times(50, (index) =>
    index % 2 === 0 ? { op: 'move', from: '/a/500000', path: '/a/0' }
      : { op: 'copy', from: '/a', path: '/b' }))
  t.equal(
    applyJsonPatch(`{"a":${ELEMENTS},"b":0}`, patch, { ...LIMITS, maxBytes: 3 * MIB }).length,
    2 * ELEMENTS.length + 11
  )
})

t.test('1,000 members are changed and 1,000 added among 80,000', async (t) => {
  const replaced = times(1000, (index) => ({ op: 'replace', path: `/m${index * 79}`, value: 1 }))
  t.equal(applyJsonPatch(MEMBERS, patchOf(replaced), LIMITS).length, MEMBERS.length)
  const added = times(1000, (index) => ({ op: 'add', path: `/n${index}`, value: 1 }))
  t.equal(Object.keys(JSON.parse(applyJsonPatch(MEMBERS, patchOf(added), LIMITS))).length, 81_000)
  const changed = times(
    20,
    (index) => ({
      op: index % 2 === 0 ? 'copy' : 'add',
      from: '/a',
      path: index % 2 === 0 ? '/b' : '/b/m1',
      value: 1
    })
  )
  t.equal(
    applyJsonPatch(`{"a":${MEMBERS}}`, patchOf(changed), { ...LIMITS, maxBytes: 3 * MIB }).length,
    2 * MEMBERS.length + 11
  )
})

t.test('1,000 changes are made 100 levels deep', async (t) => {
  const patch = patchOf(times(1000, () => ({ op: 'add', path: `${inDepth}/0`, value: 1 })))
  t.equal(applyJsonPatch(DEEP, patch, LIMITS).length, DEEP.length + 2000)
})

t.test('copies that double the document 1,000 times take no memory', async (t) => {
  const doubling = times(999, () => ({ op: 'copy', from: '', path: '/0' }))
  t.equal(refusalOf(() => applyJsonPatch('[[]]', patchOf(doubling), LIMITS)).status, 422)
  const flat = times(
    999,
    (index) => ({ op: 'copy', from: index % 2 === 0 ? '/a' : '/b', path: index % 2 === 0 ? '/b/a' : '/a/b' })
  )
  t.match(
    refusalOf(() => applyJsonPatch('{"a":{},"b":{}}', patchOf(flat), LIMITS)).messages[0],
    /nested too deeply/
  )
  const wide = times(
    999,
    (index) => ({ op: 'copy', from: '/a', path: `/a/${'x'.repeat(index % 7)}${index}` })
  )
  const few = wide.slice(0, 40)
  t.equal(refusalOf(() => applyJsonPatch('{"a":{"text":"0123456789"}}', patchOf(few), LIMITS)).status, 413)
  const undone = [...few, { op: 'replace', path: '/a', value: 1 }]
  t.equal(applyJsonPatch('{"a":{"text":"0123456789"}}', patchOf(undone), LIMITS), '{"a":1}')
})

t.test('values of a megabyte are tested', async (t) => {
  const { length } = ELEMENTS
  const values = [
    ELEMENTS,
    `"${'\\u0061'.repeat(length / 6)}"`,
    '1'.repeat(length),
    `0.${'0'.repeat(length)}1`,
    `1e${'9'.repeat(length)}`,
    MEMBERS
  ]
  for (const value of values) {
    for (const other of [1, 'a', [0], { m0: 0 }]) {
      const patch = patchOf([{ op: 'test', path: '/v', value: other }])
      t.equal(refusalOf(() => applyJsonPatch(`{"v":${value}}`, patch, LIMITS)).status, 409)
    }
  }
  for (
    const one of [
      `1.${'0'.repeat(length)}`,
      `0.${'0'.repeat(length)}1e${length + 1}`,
      `1e${'0'.repeat(length)}`
    ]
  ) {
    const patch = patchOf(times(10, () => ({ op: 'test', path: '/v', value: 1 })))
    t.ok(applyJsonPatch(`{"v":${one}}`, patch, LIMITS) === `{"v":${one}}`)
  }
})

t.test('a value of a megabyte is copied and moved 1,000 times', async (t) => {
  const document = `{"v":${ELEMENTS}}`
  const patch = patchOf(times(
    1000,
    (index) =>
      index % 2 === 0 ? { op: 'copy', from: '/v', path: '/w' } : { op: 'move', from: '/w', path: '/v' }
  ))
  t.ok(applyJsonPatch(document, patch, LIMITS) === document)
})

t.test('deep patches and documents are refused without recursion', async (t) => {
  const open = '['.repeat(MIB)
  const close = ']'.repeat(MIB)
  t.match(
    refusalOf(() => applyJsonPatch('{}', `[{"op":"add","path":"/a","value":${open}${close}}]`, LIMITS))
      .messages[0],
    /nested too deeply/
  )
  t.equal(
    refusalOf(() => applyJsonPatch('{"a":1}', `[{"op":"test","path":"/a","value":${open}${close}}]`, LIMITS))
      .status,
    409
  )
  t.match(refusalOf(() => applyJsonPatch(`${open}${close}`, '[]', LIMITS)).messages[0], /nested too deeply/)
  t.match(refusalOf(() => applyJsonPatch('{}', `${open}${close}`, LIMITS)).messages[0], /must be an object/)
  const objects = `${'{"a":'.repeat(200_000)}null${'}'.repeat(200_000)}`
  t.match(refusalOf(() => applyMergePatch('{}', objects, LIMITS)).messages[0], /nested too deeply/)
  t.match(
    refusalOf(() => applyMergePatch('{}', `{"a":${open}${close}}`, LIMITS)).messages[0],
    /nested too deeply/
  )
  const path = '/0'.repeat(30_000)
  t.match(
    refusalOf(() => applyJsonPatch(DEEP, patchOf([{ op: 'add', path, value: 1 }]), LIMITS)).messages[0],
    /no object or array|too deeply/
  )
})

t.test('a merge patch changes 8,000 of 80,000 members', async (t) => {
  const patch = `{${
    Array.from({ length: 8000 }, (_, index) => `"m${index * 9}":${index % 3 === 0 ? 'null' : '1'}`).join(',')
  }}`
  t.equal(Object.keys(JSON.parse(applyMergePatch(MEMBERS, patch, LIMITS))).length, 80_000 - 2667)
})
