import t from 'tap'
import { newStorageKey, presentationOf } from '../../../src/modules/assets/storage/storage-key.ts'

const ID = 'aB3'.repeat(7) + 'z'

t.test('storage keys are random and say how to serve', async (t) => {
  const keys = new Set(Array.from({ length: 50 }, () => newStorageKey('image/png')))
  t.equal(keys.size, 50)
  for (const key of keys) t.match(key, /^[0-9A-Za-z]{22}\.png$/)
  t.strictSame(presentationOf(newStorageKey('image/png')), { contentType: 'image/png', inline: true })
  t.strictSame(presentationOf(newStorageKey('application/pdf')), {
    contentType: 'application/pdf',
    inline: true
  })
  t.strictSame(presentationOf(newStorageKey('video/mp4')), { contentType: 'video/mp4', inline: true })
})

t.test('only generated storage keys are accepted', async (t) => {
  const hostile = [
    '',
    '..',
    '/',
    '.tmp/' + ID,
    ID.slice(1),
    ID + 'x',
    `${ID}.html`,
    `${ID}.PNG`,
    `${ID}.png.html`,
    `${ID}.png/`,
    `/${ID}`,
    `../${ID}`,
    `a/../${ID}`,
    `${ID}\0`,
    `\n${ID}`,
    `${ID}.png\n`,
    `%2e%2e%2f${ID}`,
    `${ID.slice(1)}é`,
    `${ID.slice(1)}-`,
    `${ID}.constructor`,
    `${ID}::$DATA`,
    ID.slice(2) + '\ud83d\ude00',
    'x'.repeat(100_000)
  ]
  for (const name of hostile) t.equal(presentationOf(name), undefined, JSON.stringify(name).slice(0, 60))
  t.ok(presentationOf(ID))
  t.ok(presentationOf(`${ID}.png`))
})
