import t from 'tap'
import { defaultSecretsKey, deriveSecret } from '../../../src/infra/system/identifiers.ts'

const KEY = defaultSecretsKey('a secret of the tests, 32 bytes and more')
t.test('secrets differ by key, purpose, row and generation, and never change', async (t) => {
  const derived = [
    deriveSecret(KEY, 'webhook', 'a', 1),
    deriveSecret(KEY, 'webhook', 'a', 2),
    deriveSecret(KEY, 'webhook', 'b', 1),
    deriveSecret(KEY, 'other', 'a', 1),
    deriveSecret(defaultSecretsKey('another secret'), 'webhook', 'a', 1)
  ].map((secret) => secret.toString('hex'))
  t.equal(new Set(derived).size, derived.length)
  t.equal(KEY, 'YgtJZDHVEP1COUCzga90y5rJbWY9frknmUBw8R7Yrbc', 'a new release derives the same key')
  t.equal(
    derived[0],
    '9fbf081b5b1a65ad3287ad3f6a662eab1f77c602e2b88c42b8a431a52f8d42c2',
    'and the same secrets'
  )
})
