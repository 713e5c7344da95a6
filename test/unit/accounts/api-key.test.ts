import t from 'tap'
import { createApiKey, isApiKey,
  looksLikeApiKey } from '../../../src/modules/accounts/api-keys/key-repository.ts'

// Computed with Python's zlib.crc32 and an own base62.
const KNOWN = [
  ['0000000000000000000000000000000000000000', '2kaqcA'],
  ['abcdefghijABCDEFGHIJ0123456789zyxwvutsrq', '4ZMbwF'],
  ['zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz', '2x81PZ']
] as const

t.test('the checksum of a key is the CRC-32 of its random characters in base62', async (t) => {
  for (const [random, checksum] of KNOWN) {
    t.ok(isApiKey(`lf_${random}${checksum}`), random)
    t.notOk(isApiKey(`lf_${random}${checksum.replace(/.$/, (last) => last === '0' ? '1' : '0')}`), random)
  }
})

t.test('a new key has the form that secret scanners look for, and is unlike any other', async (t) => {
  const keys = Array.from({ length: 100 }, createApiKey)
  for (const key of keys) t.ok(/^lf_[0-9A-Za-z]{46}$/.test(key) && isApiKey(key), key)
  t.equal(new Set(keys).size, keys.length)
  const characters = new Set(keys.flatMap((key) => [...key.slice(3, 43)]))
  t.equal(characters.size, 62)
})

t.test('a key with one changed, missing or additional character is none', async (t) => {
  const key = createApiKey()
  for (let at = 3; at < key.length; at++) {
    const other = key[at] === 'a' ? 'b' : 'a'
    t.notOk(isApiKey(key.slice(0, at) + other + key.slice(at + 1)), `character ${at}`)
  }
  for (
    const wrong of [key.slice(0, -1), `${key}0`, ` ${key}`, `${key}\n`, key.toUpperCase(), key.slice(3), '']
  ) {
    t.notOk(isApiKey(wrong), JSON.stringify(wrong))
  }
  t.ok(looksLikeApiKey(key))
})
