import t, { type Test } from 'tap'
import { InvalidError } from '../../../../src/errors.ts'
import { Patcher, type PatcherOptions } from '../../../../src/modules/landing-pages/patch/patcher.ts'
import { LIMITS } from '../../../helpers/patches.ts'

// Patches in a child process: time and memory. isolated-process.test.ts has its queue and its end.

const ADD = '[{"op":"add","path":"/a","value":1}]'
const wideObject = (members: number): string =>
  `{${Array.from({ length: members }, (_, index) => `"m${index}":0`).join(',')}}`

function createPatcher (t: Test, options: Partial<PatcherOptions> = {}): Patcher {
  const patcher = new Patcher({ ...LIMITS, maxBytes: 64 * 1024 * 1024, ...options })
  t.teardown(() => patcher.close())
  return patcher
}

t.test('a patch that takes too long is refused, and the next one is applied', async (t) => {
  const patcher = createPatcher(t, { cpuLimitMs: 300 })
  const slow = patcher.apply(1, 'json', wideObject(1_300_000), ADD)
  const next = patcher.apply(1, 'json', '{}', ADD) // its time begins after the slow one
  await t.rejects(slow, new InvalidError(['The patch takes too long to apply']))
  t.equal(await next, '{"a":1}')
})

t.test('a patch that takes too much memory is refused, and the next one is applied', async (t) => {
  const patcher = createPatcher(t, { heapMib: 24, cpuLimitMs: 60_000 })
  const large = patcher.apply(1, 'json', wideObject(500_000), ADD)
  const next = patcher.apply(1, 'json', '{}', ADD)
  await t.rejects(large, new InvalidError(['The patch takes too much memory to apply']))
  t.equal(await next, '{"a":1}')
})

t.test('the default memory is enough for the documents that need most', async (t) => {
  const patcher = createPatcher(t, { maxBytes: 1024 * 1024, cpuLimitMs: 60_000 })
  const names = Array.from({ length: 120_000 }, (_, index) => `"${index.toString(36)}":0`).join(',')
  const objects = '{"":0},'.repeat(145_000)
  const cases = [
    [`{${names}}`, `{${names.slice('"0":0,'.length)}}`],
    [`[0,${objects}0]`, `[${objects}0]`]
  ] as const
  for (const [document, expected] of cases) {
    t.ok(await patcher.apply(1, 'json', document, '[{"op":"remove","path":"/0"}]') === expected)
  }
})
