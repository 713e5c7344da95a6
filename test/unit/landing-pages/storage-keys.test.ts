import fc from 'fast-check'
import t from 'tap'
import { scanJson } from '../../../src/http/json-body.ts'
import { findStorageKeys } from '../../../src/modules/landing-pages/uses/storage-keys.ts'

const KEY = '7Hq2LJtB7sZ4uNfE8aGd1o'
const keepAll = async (keys: string[]) => keys
const find = async (json: string): Promise<Set<string>> => new Set(await findStorageKeys(json, keepAll))
const findIn = async (text: string): Promise<Set<string>> => await find(JSON.stringify([text]))

type Escaper = (character: string, random: number) => string
const hex = (character: string, digits: number) => character.charCodeAt(0).toString(16).padStart(digits, '0')

/** Ways to write a character. */
const ESCAPERS: Record<string, Escaper> = {
  percent: (character) => `%${hex(character, 2)}`,
  'percent in upper case': (character) => `%${hex(character, 2).toUpperCase()}`,
  decimal: (character, random) => `&#${'0'.repeat(random % 3)}${character.charCodeAt(0)};`,
  hexadecimal: (character, random) => `&#${random % 2 === 0 ? 'x' : 'X'}${hex(character, 1 + random % 4)};`,
  json: (character) => character === '/' ? '\\/' : `\\u${hex(character, 4)}`,
  script: (character) => `\\x${hex(character, 2)}`,
  'line break': (character, random) => `${['\n', '\r\n', '\t'][random % 3]}${character}`
}

/** The characters that each way escapes in any case, because they would begin an escape. */
const SPECIAL: Record<string, string> = {
  percent: '%&',
  'percent in upper case': '%&',
  decimal: '&',
  hexadecimal: '&',
  json: '\\&',
  script: '\\&'
}

const alphanumeric = [...'0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz']
const key = fc.string({ unit: fc.constantFrom(...alphanumeric), minLength: 22, maxLength: 22 })
const extension = fc.constantFrom('', '.png', '.webp', '.gz', '.woff2', '.mp4')
const layer = fc.record({
  name: fc.constantFrom(...Object.keys(ESCAPERS)),
  randoms: fc.array(fc.nat(11), { minLength: 40, maxLength: 40 })
})

/** Escapes some characters of a text. */
const escapeSome = (text: string, name: string, randoms: readonly number[]): string =>
  [...text].map((character, index) => {
    const random = randoms[index % randoms.length] as number
    return random < 4 || SPECIAL[name]?.includes(character) === true
      ? (ESCAPERS[name] as Escaper)(character, random)
      : character
  }).join('')

/** JSON text of a string with some characters escaped. */
const jsonText = (text: string, randoms: readonly number[]): string =>
  `"${
    [...text].map((character, index) =>
      randoms[index % randoms.length] as number < 3 ? `\\u${hex(character, 4)}`
        : JSON.stringify(character).slice(1, -1)
    ).join('')
  }"`

const before = fc.constantFrom(
  '',
  '/uploads/',
  'https://old.example.com/uploads/',
  '%',
  '%2F',
  'a',
  '0',
  '\\',
  '&'
)
const around = fc.oneof(fc.constantFrom('', '"', ' ', '\n', '%', '&#', '\\'), fc.string({ unit: 'binary' }))

t.test('a key is found in any value, whatever stands before and behind it', async () => {
  await fc.assert(
    fc.asyncProperty(
      key,
      extension,
      before,
      around,
      around,
      layer,
      async (key, extension, before, start, end, { randoms }) => {
        const json = jsonText(
          `${start}${before}${key}${extension}${/^\w/.test(end) ? '?' : ''}${end}`,
          randoms
        )
        return (await find(`{"a":[1,{"b":${json}}]}`)).has(key + extension)
      }
    ),
    { numRuns: 2000 }
  )
})

t.test('a key is found under several layers of escapes, each at random places', async () => {
  // Browsers remove line breaks from URLs after they have decoded HTML, so an escape of HTML has none.
  const isInner = (name: string) => name === 'line break' || name.startsWith('percent')
  const layers = fc.array(layer, { minLength: 1, maxLength: 3 })
    .map((layers) => layers.toSorted((a, b) => Number(isInner(b.name)) - Number(isInner(a.name))))
  const page = fc.constantFrom('', '/uploads/', 'https://old.example.com/uploads/', 'url(')
  await fc.assert(
    fc.asyncProperty(key, extension, page, layers, layer, async (key, extension, page, layers, outer) => {
      let text = `${page}${key}${extension}`
      for (const { name, randoms } of layers) text = escapeSome(text, name, randoms)
      const found = await find(`{"a":${jsonText(`${text}"`, outer.randoms)}}`)
      return found.has(key + extension)
    }),
    { numRuns: 3000 }
  )
})

t.test('a key is found in JSON that is the text of a value', async (t) => {
  for (let levels = 1, json = `/uploads/${KEY}.png`; levels <= 4; levels++) {
    json = JSON.stringify({ html: `<img src="${json}">` }).replaceAll('/', '\\/')
    t.ok((await find(json)).has(`${KEY}.png`), `${levels} levels`)
  }
})

t.test('the path of a variant gives the keys that its original may have', async (t) => {
  const paths = [`${KEY}/w640.webp`, `${KEY}%2Fw640.webp`, `${KEY}&#47;w320.jpg`,
    `${KEY}&sol;w320&period;jpg`]
  for (const path of paths) {
    const found = await findIn(`/uploads/${path} 2x`)
    for (const extension of ['jpg', 'png', 'webp', 'gif', 'avif']) {
      t.ok(found.has(`${KEY}.${extension}`), path)
    }
  }
  t.notOk((await findIn(`${KEY}/x640.webp`)).has(`${KEY}.png`))
})

t.test('keys are found in a row', async (t) => {
  const others = ['A', 'b', '0'].map((first) => `${first}${KEY.slice(1)}`)
  for (const between of ['.png\n', '.png%0A', '.png&#10;', '.png 1x, ', '.png\\n', '.png/', '.png%']) {
    const found = await findIn(others.join(between) + '.png')
    for (const other of others) t.ok(found.has(`${other}.png`), between)
  }
})

t.test('names of members, numbers and shorter words are no keys', async (t) => {
  for (
    const json of [
      `{"${KEY}.png":1}`,
      `{"a":{"${KEY}.png" \n : "b"}}`,
      `[${'1'.repeat(22)}]`,
      `["${KEY.slice(1)}.png"]`,
      `["${KEY.slice(0, 11)}-${KEY.slice(11)}.png"]`,
      `["${KEY.slice(0, 11)}","${KEY.slice(11)}.png"]`,
      `["${KEY.slice(0, 11)} ${KEY.slice(11)}.png"]`,
      `["${KEY.slice(0, 11)}\u0137${KEY.slice(11)}.png"]`,
      '["\\"", "", "\\\\"]',
      '{}',
      '[]'
    ]
  ) t.same([...await find(json)], [], json)
})

t.test('a name does not hide the value behind it', async (t) => {
  const json = `{"a\\"":"${KEY}.png","${KEY}.gif":"\\\\","b":["${KEY}.jpg"],"${KEY}.mp4":"\\":"}`
  const found = await find(json)
  for (const [extension, isFound] of Object.entries({ png: true, gif: false, jpg: true, mp4: false })) {
    t.equal(found.has(`${KEY}.${extension}`), isFound, extension)
  }
})

t.test('a key is found wherever it is in a long string', async () => {
  const escaped = escapeSome(`${KEY}.png`, 'json', [0])
  await fc.assert(
    fc.asyncProperty(fc.nat(70_000), fc.constantFrom('a', '\\\\', '%', '&', ' '), async (length, filler) => {
      const unit = filler.repeat(Math.ceil(length / filler.length))
      return (await find(`["${unit}-${escaped.replaceAll('\\', '\\\\')}-${unit}"]`)).has(`${KEY}.png`)
    }),
    { numRuns: 100 }
  )
})

t.test('a key is found where a long string is cut into pieces', async (t) => {
  const escaped = escapeSome(`${KEY}.png`, 'percent', [0])
  for (let length = 16_000; length < 16_600; length += 10) {
    const json = `["${' '.repeat(length)}${escaped}${' '.repeat(20_000)}"]`
    t.ok((await find(json)).has(`${KEY}.png`), `after ${length} characters`)
  }
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

const MIB = 1024 * 1024
const HOSTILE = {
  quotes: '\\"',
  'empty strings': '","',
  backslashes: '\\\\',
  'percent signs': '%25',
  'nested percent signs': '%25%32%35',
  'nested references': '&amp;#38;',
  'numbers with zeros': `&#${'0'.repeat(40)}`,
  'escapes of JSON': '\\u0037',
  base64: 'ab12CD34ef56GH78ij90KL12mn34OP56+',
  'words that are nearly long enough': `${KEY.slice(1)} `
}

t.test('the time for a hostile document is limited by that of reading it', async (t) => {
  for (const [name, unit] of Object.entries(HOSTILE)) {
    const json = `["${unit.repeat(Math.floor(MIB / unit.length))}"]`
    let ratio = Infinity
    for (let round = 0; round < 5; round++) {
      const startedAt = performance.now()
      await scanJson(json)
      const parsedAt = performance.now()
      await findStorageKeys(json, async () => [])
      ratio = Math.min(ratio, (performance.now() - parsedAt) / (parsedAt - startedAt))
    }
    t.ok(ratio < 500, `${name}: ${ratio.toFixed(0)} times`)
  }
})

t.test('a long document leaves the event loop to others', async (t) => {
  let turns = 0
  let isDone = false
  const count = () => {
    turns++
    if (!isDone) setImmediate(count)
  }
  setImmediate(count)
  await findStorageKeys(`["${'%25%32%35'.repeat(MIB / 9)}"]`, keepAll)
  isDone = true
  t.ok(turns > 16, `${turns} turns`)
})
