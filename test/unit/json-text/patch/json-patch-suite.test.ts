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

/** Cases of the suite's repository that its npm package doesn't have yet. */
const NEWER: ReadonlyArray<readonly [name: string, doc: string, patch: string, expected?: string]> = [
  ['an object becomes an array', '{}', '[{"op":"add","path":"","value":[]}]', '[]'],
  ['an array becomes an object', '[]', '[{"op":"add","path":"","value":{}}]', '{}'],
  ['append to the root', '[]', '[{"op":"add","path":"/-","value":"a"}]', '["a"]'],
  ['move of nothing', '{"a":1}', '[{"op":"move","from":"/b","path":"/a"}]'],
  ['index 01', '["a","b"]', '[{"op":"test","path":"/01","value":"b"}]'],
  ['names are case-sensitive', '{"a":1}', '[{"op":"add","path":"/A","value":2}]', '{"a":1,"A":2}'],
  [
    'a copy changes alone',
    '{"a":{"b":[{"c":1}]}}',
    '[{"op":"copy","from":"/a","path":"/d"},{"op":"replace","path":"/d/b/0/c","value":2}]',
    '{"a":{"b":[{"c":1}]},"d":{"b":[{"c":2}]}}'
  ],
  [
    'the source of a copy changes alone',
    '{"a":{"b":[{"c":1}]}}',
    '[{"op":"copy","from":"/a","path":"/d"},{"op":"replace","path":"/a/b/0/c","value":2}]',
    '{"a":{"b":[{"c":2}]},"d":{"b":[{"c":1}]}}'
  ]
]

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

t.test('cases of the suite that are disabled, because implementations may differ', async (t) => {
  const refused = refusalOf(() =>
    applyJsonPatch('"foo"', '[{"op":"replace","path":"","value":"bar"}]', LIMITS)
  )
  t.same(refused.messages, ['Operation 1 (replace ""): the document must be a JSON object or array'])
  t.equal(
    applyJsonPatch('{ "foo": 1 }', '[{"op":"test","path":"","value":{"foo":1}}]', LIMITS),
    '{ "foo": 1 }'
  )
  const twice = '[{"op":"add","path":"/baz","value":"qux","op":"move","from":"/foo"}]'
  t.same(refusalOf(() => applyJsonPatch('{"foo":"bar"}', twice, LIMITS)).messages, [
    'Operation 1: it has the name "op" more than once'
  ])
})

for (const [name, doc, patch, expected] of NEWER) {
  t.test(name, async (t) => {
    if (expected === undefined) t.equal(refusalOf(() => applyJsonPatch(doc, patch, LIMITS)).status, 422)
    else t.equal(applyJsonPatch(doc, patch, LIMITS), expected)
  })
}
