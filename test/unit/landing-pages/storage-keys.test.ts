import fc from 'fast-check'
import t from 'tap'
import { findStorageKeys } from '../../../src/modules/landing-pages/references/storage-keys.ts'

const KEY = '7Hq2LJtB7sZ4uNfE8aGd1o'
const find = async (text: string): Promise<Set<string>> =>
  new Set(await findStorageKeys(text, async (keys) => keys))

const alphanumeric = [...'0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz']
const key = fc.string({ unit: fc.constantFrom(...alphanumeric), minLength: 22, maxLength: 22 })
const extension = fc.constantFrom('', '.png', '.webp', '.gz', '.woff2', '.mp4')

t.test('a key is found whatever stands before it and behind it', async () => {
  await fc.assert(
    fc.asyncProperty(
      key,
      extension,
      fc.string({ unit: 'binary' }),
      fc.string({ unit: 'binary' }),
      async (key, extension, before, after) => {
        const end = extension === '' && /^[0-9A-Za-z]/.test(after) ? `?${after}` : after
        return (await find(`${before}${key}${extension}${end}`)).has(key + extension)
      }
    ),
    { numRuns: 3000 }
  )
})

t.test('the path of a variant gives the keys that its original may have', async (t) => {
  const found = await find(`["/uploads/${KEY}/w640.webp 2x"]`)
  for (const extension of ['jpg', 'png', 'webp', 'gif', 'avif']) t.ok(found.has(`${KEY}.${extension}`))
  t.notOk((await find(`["${KEY}/x640.webp"]`)).has(`${KEY}.png`))
})

t.test('a key is found wherever it is in a long document', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 32_600, max: 32_900 }),
      fc.constantFrom('a', ' ', '.'),
      async (length, filler) => {
        const found = await find(`["${filler.repeat(length)}${KEY}.woff2${filler.repeat(40_000)}"]`)
        return found.has(`${KEY}.woff2`)
      }
    ),
    { numRuns: 300 }
  )
})

t.test('keys that do not exist are dropped, so that a document with very many takes little memory', async (t) => {
  const keys = Array.from({ length: 20_000 }, (_, index) => `${index}${KEY}`.slice(0, 22))
  let most = 0
  const kept = await findStorageKeys(JSON.stringify(keys.map((key) => `${key}.png`)), async (some) => {
    most = Math.max(most, some.length)
    return some.filter((key) => key.startsWith('19999') && key.endsWith('.png'))
  })
  t.ok(most < 10_000, 'at most a few thousand are held at once')
  t.ok(kept.length < 10_000)
  t.ok(kept.includes(`${keys.at(-1)}.png`))
})

t.test('a long document leaves the event loop to others', async (t) => {
  let turns = 0
  let isDone = false
  const count = () => {
    turns++
    if (!isDone) setImmediate(count)
  }
  setImmediate(count)
  await find(`${KEY.slice(1)}-`.repeat(50_000))
  isDone = true
  t.ok(turns > 16, `${turns} turns`)
})
