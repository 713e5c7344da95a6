import { setTimeout as sleep } from 'node:timers/promises'
import sharp from 'sharp'
import t from 'tap'
import type { FastifyInstance } from 'fastify'
import { randomPublicId } from '../../../src/infra/system/identifiers.ts'
import { sweep } from '../../../src/modules/assets/cleanup.ts'
import { buildTestApp, PASSWORD, sendAs, signUp, testSettings, type Account } from '../../helpers/app.ts'
import { pathOf, PDF } from '../../helpers/assets.ts'
import { jpegSegment, withJpegSegments } from '../../shared/picture-parts.ts'
import { claimRedis } from '../../helpers/servers.ts'
import { backstage, onEachStore, stored } from '../../helpers/stores.ts'
import { until } from '../../helpers/until.ts'
import { ask, pictureProcesses, readAsset, store, type Asset, type Variant } from '../../helpers/variants.ts'

const picture = (width: number, height: number) =>
  sharp({ create: { width, height, channels: 3, background: '#456' } })
const photo = async (width = 700, height = 500) => await picture(width, height).jpeg().toBuffer()
/** A photo of more than a megabyte. */
const largePhoto = async () => {
  const noise = { type: 'gaussian', sigma: 60 } as const
  const create = { width: 1000, height: 1000, channels: 3, background: '#456', noise } as const
  return await sharp({ create }).jpeg({ quality: 100 }).toBuffer()
}

const remove = async (app: FastifyInstance, account: Account, { id }: Asset) =>
  await sendAs(app, account, 'DELETE', `/assets/${id}`)
const describe = ({ variants }: Asset) =>
  variants.map(({ url, width, height, content_type: type }) =>
    `${url.slice(url.lastIndexOf('/') + 1)} ${width}x${height} ${type}`
  )
/** How many attempts at variants an app has made, by their result. */
async function attempts (app: FastifyInstance): Promise<Record<string, number>> {
  const text = await app.metrics.getSingleMetricAsString('landfall_variants_total')
  const lines = text.matchAll(/result="(\w+)"\} (\d+)/g)
  return Object.fromEntries([...lines].map(([, result, count]) => [result, Number(count)]))
}

t.test('the record lists variants that are narrower than the picture', async (t) => {
  const app = await buildTestApp(t, { settings: { ...await testSettings(t), IMAGE_WIDTHS: '640,320,1000' } })
  const account = await signUp(app)
  const listed = async (bytes: Buffer) => describe(await store(app, account, bytes))
  t.same(await listed(await photo(1000, 333)), [
    'w320.webp 320x107 image/webp',
    'w320.jpg 320x107 image/jpeg',
    'w640.webp 640x213 image/webp',
    'w640.jpg 640x213 image/jpeg'
  ])
  t.same(await listed(await picture(321, 10).png().toBuffer()), [
    'w320.webp 320x10 image/webp',
    'w320.png 320x10 image/png'
  ])
  for (const format of ['webp', 'gif', 'avif'] as const) {
    const bytes = await picture(400, 400).toFormat(format).toBuffer()
    t.same(await listed(bytes), ['w320.webp 320x320 image/webp'])
  }
  t.same(await listed(await photo(320, 400)), [], 'not for its own width')
  t.same(await listed(PDF), [])
  const upright = await picture(400, 500).jpeg().withMetadata({ orientation: 6 }).toBuffer()
  t.same((await listed(upright))[0], 'w320.webp 320x256 image/webp', 'the dimensions are the upright ones')
})

t.test('a variant that is higher than WebP can hold is left out', async (t) => {
  const app = await buildTestApp(t)
  const tall = await store(app, await signUp(app), await picture(321, 16_500).png().toBuffer())
  t.same(describe(tall), ['w320.png 320x16449 image/png'])
  t.equal((await ask(app, tall.variants[0]?.url as string)).statusCode, 200)
})

onEachStore('a variant is made once, and then a file like all others', async (t, build) => {
  const app = await build(t)
  const account = await signUp(app)
  const asset = await store(app, account, await photo())
  for (const { url, width, height, content_type: type } of asset.variants) {
    const first = await ask(app, url)
    t.equal(first.statusCode, 200, first.body)
    t.match(first.headers, {
      'content-type': type,
      'cache-control': 'public, max-age=31536000, immutable',
      'content-disposition': 'inline',
      vary: undefined
    })
    const { format, ...metadata } = await sharp(first.rawPayload).metadata()
    t.same([`image/${format}`, metadata.width, metadata.height], [type, width, height])
    const second = await ask(app, url)
    t.ok(second.rawPayload.equals(first.rawPayload))
    t.equal(second.headers.etag, first.headers.etag)
    const part = await app.inject({ url: new URL(url).pathname, headers: { range: 'bytes=0-3' } })
    t.equal(part.statusCode, 206)
    t.ok(part.rawPayload.equals(first.rawPayload.subarray(0, 4)))
  }
  t.match(await attempts(app), { made: asset.variants.length })
  const { published, temporary } = await stored(app)
  t.equal(published.length, 1 + asset.variants.length)
  t.same(temporary, [])

  t.equal((await remove(app, account, asset)).statusCode, 204)
  t.same((await stored(app)).published, [], 'the variants go with the asset')
  for (const { url } of asset.variants) t.equal((await ask(app, url)).statusCode, 404)
})

onEachStore('a photo with megabytes of depth maps before its pixels has variants', async (t, build) => {
  const app = await build(t)
  const account = await signUp(app)
  const maps = Array.from({ length: 100 }, () => jpegSegment(0xe1, Buffer.alloc(65_000, 'x')))
  const segments = Array.from({ length: 5000 }, () => jpegSegment(0xe1, Buffer.from('x')))
  for (const before of [maps, segments]) {
    const asset = await store(app, account, withJpegSegments(await photo(), ...before))
    t.equal(asset.variants.length, 4)
    const url = pathOf(asset.variants[0] as Variant)
    const head = await app.inject({ method: 'HEAD', url })
    t.equal(head.statusCode, 200, 'HEAD makes a variant, too')
    const { headers: { etag }, rawPayload } = await app.inject(url)
    t.match(head.headers, { etag, 'content-length': `${rawPayload.length}` })
  }
})

t.test('variants that are not listed are not found', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  const { url } = await store(app, account, await photo())
  const stem = url.slice(0, -'.jpg'.length)
  for (
    const name of [
      ...'w321.webp w640.png w320.avif w320.gif w0320.webp w700.jpg w960.webp w99999.webp'.split(' '),
      ...'W320.webp w320.webp/ w320 .webp w320.webp.webp ../w320.webp'.split(' ')
    ]
  ) t.equal((await app.inject(`${new URL(stem).pathname}/${name}`)).statusCode, 404, name)
  t.equal((await app.inject(`/uploads/${randomPublicId()}/w320.webp`)).statusCode, 404)
  const text = await store(app, account, Buffer.from('text'))
  t.equal((await app.inject(`${pathOf(text)}/w320.webp`)).statusCode, 404)
  t.match(await attempts(app), { made: 0, refused: 0, failed: 0 })
})

t.test('without widths there are no variants, but those that exist are served on', async (t) => {
  const settings = await testSettings(t)
  const app = await buildTestApp(t, { settings })
  const account = await signUp(app)
  const asset = await store(app, account, await photo())
  const [first, second] = asset.variants as [Variant, Variant]
  const { rawPayload } = await ask(app, first.url)
  const later = await buildTestApp(t, { settings: { ...settings, IMAGE_WIDTHS: '' } })
  t.same((await readAsset(later, account, asset)).variants, [])
  t.ok((await ask(later, first.url)).rawPayload.equals(rawPayload))
  t.equal((await ask(later, second.url)).statusCode, 404)
})

t.test('bytes that are no picture are remembered, and never tried again', async (t) => {
  const settings = await testSettings(t)
  const app = await buildTestApp(t, { settings })
  const account = await signUp(app)
  const broken = await photo()
  const asset = await store(app, account, broken.fill(0xff, 620))
  t.equal(asset.variants.length, 4)
  for (const { url } of asset.variants) t.equal((await ask(app, url)).statusCode, 404)
  t.same((await readAsset(app, account, asset)).variants, [])
  t.match(await attempts(app), { refused: 1 })
  t.equal((await ask(app, asset.url)).statusCode, 200, 'the original is served on')
})

t.test('pictures with too many pixels have no variants, whatever their header says', async (t) => {
  const app = await buildTestApp(t, { settings: { ...await testSettings(t), IMAGE_MAX_PIXELS: '250000' } })
  const account = await signUp(app)
  t.same((await store(app, account, await photo(501, 500))).variants, [])
  const asset = await store(app, account, await photo(600, 400))
  t.equal((await ask(app, asset.variants[0]?.url as string)).statusCode, 200)

  const lying = await store(app, account, await photo(900, 600))
  t.same(lying.variants, [])
  // The dimensions in the row are those of a header that lies.
  await app.database.asset.updateMany({ where: { id: lying.id }, data: { width: 400, height: 300 } })
  const { variants } = await readAsset(app, account, lying)
  t.equal((await ask(app, variants[0]?.url as string)).statusCode, 404)
  t.same((await readAsset(app, account, lying)).variants, [])
})

t.test('wrong dimensions are corrected when a variant is made', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  const asset = await store(app, account, await photo(700, 500))
  await app.database.asset.updateMany({ where: { id: asset.id }, data: { width: 2000, height: 333 } })
  const { variants } = await readAsset(app, account, asset)
  t.equal(variants.length, 10)
  t.equal((await ask(app, variants.at(-1)?.url as string)).statusCode, 404)
  t.same((await readAsset(app, account, asset)).variants, asset.variants)
  t.equal((await ask(app, asset.variants[0]?.url as string)).statusCode, 200)
})

// A child process has read a small original when it dies. Of a large one, bytes are left.
for (const [size, original] of [['small', photo], ['large', largePhoto]] as const) {
  t.test(`if the child process dies of a ${size} picture three times, the picture is given up`, async (t) => {
    const app = await buildTestApp(t)
    const account = await signUp(app)
    const asset = await store(app, account, await original())
    const healthy = (await store(app, account, await photo(2000, 1500))).variants
    for (let attempt = 1; attempt <= 3; attempt++) {
      const { statusCode } = await ask(app, healthy[attempt]?.url as string)
      t.equal(statusCode, 200, 'other pictures get a new process')
      const [pid] = pictureProcesses() as [number]
      process.kill(pid, 'SIGSTOP')
      const asked = ask(app, asset.variants[attempt]?.url as string)
      await sleep(100)
      process.kill(pid, 'SIGKILL')
      const response = await asked
      t.equal(response.statusCode, 503)
      t.equal(response.headers['retry-after'], '2')
    }
    for (const { url } of asset.variants) t.equal((await ask(app, url)).statusCode, 404)
    t.same((await readAsset(app, account, asset)).variants, [])
  })
}

t.test('if the child process dies while its last bytes are stored, no part of the variant stays', async (t) => {
  const app = await buildTestApp(t)
  const [variant] = (await store(app, await signUp(app), await photo())).variants as [Variant]
  const { files } = app
  const receive = files.receive.bind(files)
  files.receive = async (...args) => {
    const staged = await receive(...args)
    const [pid] = pictureProcesses() as [number]
    process.kill(pid, 'SIGKILL')
    await until(() => !pictureProcesses().includes(pid), 'it has ended')
    await sleep(100)
    return staged
  }
  t.equal((await ask(app, variant.url)).statusCode, 503)
  files.receive = receive
  await until(async () => (await stored(app)).temporary.length === 0, 'the temporary file is removed')
  t.equal((await ask(app, variant.url)).statusCode, 200)
  t.match(await attempts(app), { made: 1, failed: 0 })
})

t.test('four requests of a client may wait, and none for longer than ten seconds', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  const asset = await store(app, account, await photo(2000, 1500))
  const urls = asset.variants.map(({ url }) => url)
  t.equal((await ask(app, urls[0] as string)).statusCode, 200)
  const [pid] = pictureProcesses() as [number]
  process.kill(pid, 'SIGSTOP')
  const waiting = urls.slice(1, 5).map(async (url) => await ask(app, url, '203.0.113.7'))
  const refused = await ask(app, urls[5] as string, '203.0.113.7')
  t.equal(refused.statusCode, 503)
  t.match(refused.json(), { errors: [/try again/] })
  const other = ask(app, urls[5] as string, '203.0.113.8')
  for (const { statusCode, headers } of await Promise.all(waiting)) {
    t.equal(statusCode, 503)
    t.equal(headers['retry-after'], '2')
  }
  t.ok((await attempts(app)).unavailable as number >= 4, 'each request that waited too long counts')
  process.kill(pid, 'SIGCONT')
  t.ok([200, 503].includes((await other).statusCode))
  for (const url of urls) {
    await until(async () => (await ask(app, url)).statusCode === 200, 'it is made when its client asks again')
  }
  t.match(await attempts(app), { made: urls.length, failed: 0 })
})

t.test('the variants of an account do not wait for those of another one, however many addresses ask', async (t) => {
  const app = await buildTestApp(t)
  const [greedy, other] = [await signUp(app), await signUp(app)]
  const own = (await store(app, other, await photo())).variants.map(({ url }) => url)
  t.equal((await ask(app, own[0] as string)).statusCode, 200)
  const [pid] = pictureProcesses() as [number]
  process.kill(pid, 'SIGSTOP')
  const large = await photo(3000, 2000)
  const urls: string[] = []
  while (urls.length < 24) urls.push(...(await store(app, greedy, large)).variants.map(({ url }) => url))
  const load = urls.slice(0, 24).map(async (url, place) => await ask(app, url, `198.51.100.${place % 6}`))
  const waiting = async () => Number(/queued (\d+)/.exec(await app.metrics.metrics())?.[1])
  await until(async () => await waiting() === 23)
  const asked = own.slice(1).map(async (url) => await ask(app, url, '203.0.113.9'))
  await until(async () => await waiting() === 23 + asked.length)
  process.kill(pid, 'SIGCONT')
  t.same((await Promise.all(asked)).map(({ statusCode }) => statusCode), asked.map(() => 200))
  t.ok(await waiting() > 12, 'most of the others still wait')
  await Promise.all(load)
})

t.test('AVIFs of more than eight million pixels have no variants', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  const avif = async (height: number) => await picture(2000, height).avif({ effort: 0 }).toBuffer()
  const smaller = await store(app, account, await avif(4000))
  t.equal((await ask(app, smaller.variants[0]?.url as string)).statusCode, 200)
  const larger = await store(app, account, await avif(4002))
  t.same(larger.variants, [])
  const name = (smaller.variants[0]?.url as string).replace(/.*\//, '')
  t.equal((await ask(app, `${larger.url.replace('.avif', '')}/${name}`)).statusCode, 404)
})

t.test('a lock on a variant is renewed while it is made, and short, so that a crash costs seconds', async (t) => {
  const settings = { ...await testSettings(t), REDIS_URL: await claimRedis(t) }
  const app = await buildTestApp(t, { settings })
  const [first, second] = (await store(app, await signUp(app), await photo())).variants as [Variant, Variant]
  const lifetime = async (url: string) =>
    await app.redisClient?.run(async (redis) =>
      await redis.pttl(`landfall:variant:2:${url.replace(/.*uploads\//, '')}`)
    ) as number
  t.equal((await ask(app, first.url)).statusCode, 200)
  t.equal(await lifetime(first.url), -2, 'it is released')
  const [pid] = pictureProcesses() as [number]
  process.kill(pid, 'SIGSTOP')
  const asked = ask(app, second.url)
  await until(async () => await lifetime(second.url) > 0, 'it is locked')
  const seen: number[] = []
  const isRenewed = async () => {
    seen.push(await lifetime(second.url))
    return seen.length > 1 && seen.at(-1) as number > (seen.at(-2) as number)
  }
  for (let renewal = 1; renewal <= 2; renewal++) await until(isRenewed, 'it is renewed')
  t.same(seen.filter((ms) => ms <= 0 || ms > 5000), [], 'its lifetime in milliseconds')
  process.kill(pid, 'SIGCONT')
  t.equal((await asked).statusCode, 200)
})

t.test('replicas make each variant once', async (t) => {
  const settings = { ...await testSettings(t), REDIS_URL: await claimRedis(t) }
  const replicas = await Promise.all([1, 2, 3].map(async () => await buildTestApp(t, { settings })))
  const [app] = replicas as [FastifyInstance]
  const asset = await store(app, await signUp(app), await photo(2000, 1500))
  await Promise.all(asset.variants.map(async ({ url }, place) => {
    const responses = await Promise
      .all(replicas.map(async (replica) => await ask(replica, url, `198.51.100.${place}`)))
    t.same(responses.map(({ statusCode }) => statusCode), [200, 200, 200])
    t.equal(new Set(responses.map(({ headers }) => headers.etag)).size, 1)
  }))
  const made = await Promise.all(replicas.map(async (replica) => (await attempts(replica)).made ?? 0))
  t.equal(made.reduce((sum, count) => sum + count), asset.variants.length)
})

onEachStore('variants of deleted assets are swept, also those made during the deletion', async (t, build) => {
  const app = await build(t)
  const account = await signUp(app)
  const [gone, kept] = [await store(app, account, await photo()), await store(app, account, await photo())]
  for (const { variants: [variant] } of [gone, kept]) await ask(app, variant?.url as string)
  // As if the process had died between the row and the files.
  await app.database.asset.delete({ where: { id: gone.id } })
  t.match(await sweep(app.database, app.files, { minAgeMs: 0 }), { unreferenced: 1 })
  await backstage(app).put(gone.variants[0]?.url.replace(/.*uploads/, '.variants') as string, 'x')
  t.match(await sweep(app.database, app.files), { variants: 1 })
  t.equal((await stored(app)).published.length, 2)
  t.equal((await ask(app, kept.variants[0]?.url as string)).statusCode, 200)
})

onEachStore('variants are deleted with their account, also those made at the same time', async (t, build) => {
  const app = await build(t)
  const account = await signUp(app)
  const { url, variants } = await store(app, account, await photo())
  const [first, second] = variants as [Variant, Variant]
  t.equal((await ask(app, first.url)).statusCode, 200)
  const { files } = app
  const removeFile = files.remove.bind(files)
  files.remove = async (key) => {
    const existed = await removeFile(key)
    // As if it had been made of a file that was opened before it was removed.
    await backstage(app).put(second.url.replace(/.*uploads/, '.variants'), 'x')
    return existed
  }
  t.equal((await sendAs(app, account, 'DELETE', '/auth/me', { password: PASSWORD })).statusCode, 204)
  t.same((await stored(app)).published, [])
  for (const gone of [url, first.url, second.url]) t.equal((await ask(app, gone)).statusCode, 404)
})

t.test('while variants are made, assets can be deleted', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  for (let round = 0; round < 10; round++) {
    const asset = await store(app, account, await photo())
    const asked = Promise.all(asset.variants.map(async ({ url }) => (await ask(app, url)).statusCode))
    await sleep(4 * round)
    t.equal((await remove(app, account, asset)).statusCode, 204)
    t.same((await asked).filter((status) => ![200, 404].includes(status)), [])
    t.same((await stored(app)).published, [])
  }
})
