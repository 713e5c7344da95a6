import { randomBytes } from 'node:crypto'
import { openAsBlob } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import sharp from 'sharp'
import t from 'tap'
import { ConflictError, createLandfallClient, srcset } from '../../../packages/client/src/index.ts'
import { temporaryFolder } from '../../helpers/service.ts'
import { expiredTokens, failure, recordingFetch, signedUp, startApp } from '../../helpers/api-client.ts'

const { app, url } = await startApp(t, { MAX_UPLOAD_BYTES: String(2 ** 26) })
const bytesOf = async (address: string) => (await app.inject(new URL(address).pathname)).rawPayload

t.test('files can be uploaded from memory and from disk', async (t) => {
  const { assets } = await signedUp(url)
  const note = await assets.upload(new File(['hello'], 'note.txt', { type: 'text/plain' }))
  t.match(note, { filename: 'note.txt', content_type: 'text/plain', byte_size: 5 })
  t.same(await assets.get(note.id), { ...note, used_by: [] })
  t.match(await assets.upload(new Blob(['x'])), { filename: 'file' })

  const bytes = randomBytes(3 * 2 ** 20)
  const path = join(temporaryFolder(t), 'large.bin')
  await writeFile(path, bytes)
  const large = await assets.upload(await openAsBlob(path), { filename: 'größer.bin' })
  t.match(large, { filename: 'größer.bin', byte_size: bytes.length })
  t.ok((await bytesOf(large.url)).equals(bytes))

  await assets.delete(large.id)
  t.match(await failure(assets.get(large.id)), { status: 404 })
  t.match(await failure(assets.delete(large.id)), { status: 404 })
})

t.test('a file that a page uses can be kept', async (t) => {
  const { assets, landingPages } = await signedUp(url)
  const file = await assets.upload(new File(['hello'], 'note.txt'))
  const page = await landingPages.create({ file: file.url })
  t.same((await assets.get(file.id)).used_by, [{ id: page.id, public_id: page.public_id }])
  const error = await failure(assets.delete(file.id, { ifUnused: true }))
  t.ok(error instanceof ConflictError)
  t.match(error, { status: 409, errors: [`File is used by 1 page: ${page.public_id}`] })
  await assets.delete(file.id, { ifUnused: false })
  const unused = await assets.upload(new File(['hello'], 'note.txt'))
  await assets.delete(unused.id, { ifUnused: true })
  t.same((await assets.listPage()).items, [])
})

t.test('an upload is repeated completely after an expired token is renewed', async (t) => {
  const { fetch, sent } = recordingFetch()
  const { assets } = createLandfallClient({ baseUrl: url, fetch, tokens: await expiredTokens(url) })
  const bytes = randomBytes(2 ** 20)
  const path = join(temporaryFolder(t), 'file.bin')
  await writeFile(path, bytes)
  const asset = await assets.upload(await openAsBlob(path), { filename: 'file.bin' })
  t.ok((await bytesOf(asset.url)).equals(bytes))
  t.same(sent.map(({ status }) => status), [401, 200, 201])
  t.equal((await assets.listPage()).items.length, 1)
})

t.test('an upload never holds the whole file in memory, even when it is sent twice', async (t) => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const path = join(temporaryFolder(t), 'large.bin')
  await writeFile(path, new Uint8Array(2 ** 26))
  let held = 0
  const fetch = async (address: string, init: RequestInit) => {
    const response = await globalThis.fetch(address, init)
    collect()
    held = Math.max(held, process.memoryUsage().arrayBuffers - before)
    return response
  }
  const { assets } = createLandfallClient({ baseUrl: url, fetch, tokens: await expiredTokens(url) })
  collect()
  const before = process.memoryUsage().arrayBuffers
  t.match(await assets.upload(await openAsBlob(path), { filename: 'large.bin' }), { byte_size: 2 ** 26 })
  t.ok(held < 2 ** 25, `${held} bytes were held in memory`)
})

t.test('an aborted upload leaves nothing behind', async (t) => {
  const { assets } = await signedUp(url)
  const controller = new AbortController()
  const path = join(temporaryFolder(t), 'file.bin')
  await writeFile(path, randomBytes(2 ** 21))
  const call = failure(assets.upload(await openAsBlob(path), { signal: controller.signal }))
  setImmediate(() => controller.abort())
  t.match(await call, { name: 'AbortError' })
  t.same((await assets.listPage()).items, [])
})

t.test('srcset lists the variants of a type', async (t) => {
  const { assets } = await signedUp(url)
  const colour = sharp({ create: { width: 700, height: 350, channels: 3, background: '#345' } })
  const upload = async (bytes: Buffer) => await assets.upload(new Blob([new Uint8Array(bytes)]))
  const photo = await upload(await colour.jpeg().toBuffer())
  const stem = photo.url.replace('.jpg', '')
  t.equal(srcset(photo), `${stem}/w320.jpg 320w, ${stem}/w640.jpg 640w`, 'its own type')
  t.equal(srcset(photo, 'image/webp'), `${stem}/w320.webp 320w, ${stem}/w640.webp 640w`)
  t.equal(srcset(photo, 'image/png'), '')
  t.match(srcset(await upload(await colour.gif().toBuffer())), /^\S+\/w320\.webp 320w, \S+\/w640\.webp 640w$/)
  t.equal(srcset(await upload(Buffer.from('text'))), '')
})
