import t from 'tap'
import { applyMergePatch } from '../../../../packages/json-text/src/index.ts'
import { LIMITS, refusalOf } from '../../../helpers/patches.ts'

// JSON Merge Patch on the text of documents.

/** RFC 7396, appendix A: original, patch, result. */
const APPENDIX_A: ReadonlyArray<readonly [original: string, patch: string, result: string]> = [
  ['{"a":"b"}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'],
  ['{"a":"b"}', '{"a":null}', '{}'],
  ['{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'],
  ['{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'],
  ['{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'],
  ['{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'],
  ['["a","b"]', '["c","d"]', '["c","d"]'],
  ['{"a":"b"}', '["c"]', '["c"]'],
  ['{"a":"foo"}', 'null', 'null'],
  ['{"a":"foo"}', '"bar"', '"bar"'],
  ['{"e":null}', '{"a":1}', '{"e":null,"a":1}'],
  ['[1,2]', '{"a":"b","c":null}', '{"a":"b"}'],
  ['{}', '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}']
]

t.test('the examples of RFC 7396', async (t) => {
  for (const [original, patch, result] of APPENDIX_A) {
    if (/^["n]/.test(result)) {
      const { status, messages } = refusalOf(() => applyMergePatch(original, patch, LIMITS))
      t.equal(status, 422)
      t.same(messages, ['Merge patch: the document must be a JSON object or array'])
    } else t.equal(applyMergePatch(original, patch, LIMITS), result, `${original} ${patch}`)
  }
})

// patch-properties.test.ts compares merged texts with merged values.

t.test('members are removed and added as in the rest', async (t) => {
  const document = '{\r\n  "a" : 1,\r\n  "b" : 2\r\n}'
  t.equal(
    applyMergePatch(document, '{"c":{"d":null},"a":null}', LIMITS),
    '{\r\n  "b" : 2,\r\n  "c" : {}\r\n}'
  )
})

t.test('new objects lose their nulls and nothing else', async (t) => {
  const cases = [
    ['{"a":{ "b" : [ null ], "c": null, "d": 1.0 }}', '{"a":{ "b" : [ null ], "d": 1.0 }}'],
    ['{"\\u0061" :{ "b" : [ { "c": null } ] }}', '{"\\u0061":{ "b" : [ { "c": null } ] }}'],
    ['{"a":[{"b":1,"b":2}]}', '{"a":[{"b":1,"b":2}]}']
  ] as const
  for (const [patch, expected] of cases) t.equal(applyMergePatch('{}', patch, LIMITS), expected, patch)
})

const DEEP = `${'{"a":'.repeat(100)}1${'}'.repeat(100)}`

const REFUSED: ReadonlyArray<readonly [document: string, patch: string, message: string]> = [
  [
    '{"a":{"b":1,"b":2}}',
    '{"a":{"b":3}}',
    'Merge patch, member "/a/b": the document has this name more than once'
  ],
  ['{"a":1,"a":2}', '{"a":null}', 'Merge patch, member "/a": the document has this name more than once'],
  ['{}', '{"a":1,"\\u0061":2}', 'Merge patch, member "/a": the patch has this name more than once'],
  [
    '{"a":{}}',
    '{"a":{"b/c":{"d":1,"d":1}}}',
    'Merge patch, member "/a/b~1c/d": the patch has this name more than once'
  ],
  ['{}', '{"a":{"b":null,"b":null}}', 'Merge patch, member "/a/b": the patch has this name more than once'],
  [
    '{}',
    '{"a":{"a":' + '['.repeat(99) + ']'.repeat(99) + '}}',
    'Merge patch, member "/a/a": the document would be nested too deeply (maximum is 100 levels)'
  ],
  ['{}', '7', 'Merge patch: the document must be a JSON object or array']
]

for (const [document, patch, message] of REFUSED) {
  t.test(`refused: ${message}`, async (t) => {
    const { status, messages } = refusalOf(() => applyMergePatch(document, patch, LIMITS))
    t.equal(status, 422)
    t.same(messages, [message])
  })
}

t.test('the result has at most 100 levels and maxBytes bytes', async (t) => {
  t.equal(applyMergePatch('{}', DEEP, LIMITS), DEEP)
  const [message = ''] = refusalOf(() => applyMergePatch('{}', `{"a":${DEEP}}`, LIMITS)).messages
  t.match(message, /^Merge patch, member "(\/a)+…": the document would be nested too deeply/)
  t.equal(
    refusalOf(() => applyMergePatch('{"a":1}', '{"b":1}', { maxBytes: 12, maxLevels: 100 })).status,
    413
  )
  t.equal(applyMergePatch('{"a":1}', '{"b":1}', { maxBytes: 13, maxLevels: 100 }), '{"a":1,"b":1}')
})
