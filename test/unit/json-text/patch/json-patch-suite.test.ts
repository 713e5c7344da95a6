import { createRequire } from 'node:module'
import t from 'tap'
import { applyJsonPatch } from '../../../../packages/json-text/src/index.ts'
import { LIMITS, refusalOf } from '../../../helpers/patches.ts'

// The official test suite of JSON Patch, and RFC 6902's own examples.

interface Case {
  readonly comment?: string
  readonly doc: unknown
  readonly patch: unknown
  readonly expected?: unknown
  readonly error?: string
  readonly disabled?: boolean
}

const suite = createRequire(import.meta.url)
const CASES = ['tests.json', 'spec_tests.json'].flatMap((file) =>
  (suite(`json-patch-test-suite/${file}`) as Case[]).map((testCase) => ({ file, ...testCase }))
)

t.test('the official test suite', async (t) => {
  t.ok(CASES.length > 90)
  for (const { file, comment, doc, patch, expected, error, disabled } of CASES) {
    if (disabled === true) continue
    const name = `${file}: ${comment ?? ''} ${JSON.stringify(patch)}`
    for (const indent of [0, 2]) {
      const [json, patchJson] = [JSON.stringify(doc, null, indent), JSON.stringify(patch, null, indent)]
      if (error !== undefined) {
        t.equal(refusalOf(() => applyJsonPatch(json, patchJson, LIMITS)).name, 'PatchError', name)
      } else t.same(JSON.parse(applyJsonPatch(json, patchJson, LIMITS)), expected ?? doc, name)
    }
  }
})
