import type { ChildProcess } from 'node:child_process'
import { subscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import sharp from 'sharp'
import t from 'tap'
import type { FastifyInstance } from 'fastify'
import type { RedisClient } from '../../../src/infra/redis/redis-client.ts'
import { sweep } from '../../../src/modules/assets/cleanup.ts'
import { buildTestApp, PASSWORD, sendAs, signUp, testSettings } from '../../helpers/app.ts'
import { PDF } from '../../helpers/assets.ts'
import { avifSaying } from '../../helpers/hostile-pictures.ts'
import { pngHeader, pngOf } from '../../shared/picture-parts.ts'
import { claimRedis } from '../../helpers/servers.ts'
import { backstage, onEachStore, stored, type Build } from '../../helpers/stores.ts'
import { until } from '../../helpers/until.ts'
import { ask, askPatiently, readAsset, store, type Asset, type Variant } from '../../helpers/variants.ts'

/** A picture of one colour, which has four variants if it is a JPEG of the default size. */
const picture = (width = 700, height = 500) =>
  sharp({ create: { width, height, channels: 3, background: '#456' } })
const photo = await picture().jpeg().toBuffer()

/** The files of an asset and its variants. */
const filesOf = async (app: FastifyInstance, { url }: Pick<Asset, 'url'>) => {
  const [, stem = ''] = /\/(\w{22})\b/.exec(url) ?? []
  return (await stored(app)).published.filter((name) => name.includes(stem))
}

/** How many attempts at variants an app has made, by their result. */
async function attempts (app: FastifyInstance): Promise<Record<string, number>> {
  const text = await app.metrics.getSingleMetricAsString('landfall_variants_total')
  const lines = text.matchAll(/result="(\w+)"\} (\d+)/g)
  return Object.fromEntries([...lines].map(([, result, count]) => [result, Number(count)]))
}
/** Runs an action. Returns the attempts that it led to. */
async function attemptsOf (app: FastifyInstance, action: () => Promise<unknown>) {
  const before = await attempts(app)
  await action()
  const after = Object.entries(await attempts(app))
  return Object.fromEntries(after.map(([result, count]) => [result, count - (before[result] ?? 0)]))
}

// A service for most tests, because the start of a child process takes longer than a variant.
const settings = { ...await testSettings(t), REDIS_URL: await claimRedis(t) }
let service: Promise<FastifyInstance> | undefined
/** Returns that service. */
const shared = async (build?: Build): Promise<FastifyInstance> =>
  await (service ??= build === undefined ? buildTestApp(t, settings) : build(t, settings))

/** The child processes that make variants, the newest last. */
const children: ChildProcess[] = []
subscribe('child_process', (message) => children.push((message as { process: ChildProcess }).process))

/** Has the shared service make a variant, and stops the child process that did. */
async function stopChild (app: FastifyInstance): Promise<ChildProcess> {
  const { variants: [variant] } = await store(app, await signUp(app), photo)
  const { statusCode, body } = await askPatiently(app, variant?.url as string)
  if (statusCode !== 200) throw new Error(`${statusCode} ${body}`)
  const child = children.at(-1) as ChildProcess
  child.kill('SIGSTOP')
  return child
}

t.test('the record lists variants that are narrower than the picture', async (t) => {
  const app = await buildTestApp(t, { IMAGE_WIDTHS: '640,320,1000', IMAGE_MAX_PIXELS: '12000000' })
  const account = await signUp(app)
  const listed = async (bytes: Buffer) =>
    (await store(app, account, bytes)).variants.map(({ url, width, height, content_type: type }) =>
      `${url.slice(url.lastIndexOf('/') + 1)} ${width}x${height} ${type}`
    )
  const png = (width: number, height: number) => pngOf(pngHeader({ width, height }), Buffer.alloc(99))
  t.same(await listed(await picture(1000, 333).jpeg().toBuffer()), [
    'w320.webp 320x107 image/webp',
    'w320.jpg 320x107 image/jpeg',
    'w640.webp 640x213 image/webp',
    'w640.jpg 640x213 image/jpeg'
  ])
  t.same(await listed(png(321, 10)), ['w320.webp 320x10 image/webp', 'w320.png 320x10 image/png'])
  for (const format of ['webp', 'gif', 'avif'] as const) {
    const bytes = await picture(400, 400).toFormat(format).toBuffer()
    t.same(await listed(bytes), ['w320.webp 320x320 image/webp'])
  }
  t.same(await listed(png(320, 400)), [], 'not for its own width')
  t.same(await listed(PDF), [])
  const upright = await picture(400, 500).jpeg().withMetadata({ orientation: 6 }).toBuffer()
  t.same((await listed(upright))[0], 'w320.webp 320x256 image/webp', 'the dimensions are the upright ones')
  t.same(await listed(png(321, 16_500)), ['w320.png 320x16449 image/png'], 'too high for WebP')

  t.equal((await listed(png(4000, 3000))).length, 6)
  t.same(await listed(png(4000, 3001)), [], 'more than IMAGE_MAX_PIXELS')
  const avif = await picture(400, 400).avif().toBuffer()
  t.equal((await listed(avifSaying(avif, { width: 2000, height: 4000 }))).length, 3)
  t.same(await listed(avifSaying(avif, { width: 2000, height: 4001 })), [], 'an AVIF of more than 8 million')
})

onEachStore('a variant is made once, and then a file like all others', async (t, build) => {
  const app = await shared(build)
  const account = await signUp(app)
  const asset = await store(app, account, photo)
  const made = await attemptsOf(app, async () => {
    for (const { url, width, height, content_type: type } of asset.variants) {
      const first = await askPatiently(app, url)
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
  })
  t.match(made, { made: asset.variants.length })
  t.equal((await filesOf(app, asset)).length, 1 + asset.variants.length)
  t.same((await stored(app)).temporary, [])

  t.equal((await sendAs(app, account, 'DELETE', `/assets/${asset.id}`)).statusCode, 204)
  t.same(await filesOf(app, asset), [], 'the variants go with the asset')
  for (const { url } of asset.variants) t.equal((await ask(app, url)).statusCode, 404)
})

t.test('without widths there are no variants, but those that exist are served on', async (t) => {
  const app = await shared()
  const account = await signUp(app)
  const asset = await store(app, account, photo)
  const [first, second] = asset.variants as [Variant, Variant]
  const { rawPayload } = await askPatiently(app, first.url)
  const later = await buildTestApp(t, { ...settings, IMAGE_WIDTHS: '' })
  t.same((await readAsset(later, account, asset)).variants, [])
  t.ok((await ask(later, first.url)).rawPayload.equals(rawPayload))
  t.equal((await ask(later, second.url)).statusCode, 404)
})

t.test('bytes that are no picture, or too many, are remembered and never tried again', async (t) => {
  const app = await shared()
  const account = await signUp(app)
  const broken = Buffer.from(photo).fill(0xff, 620)
  const large = pngOf(pngHeader({ width: 8000, height: 8000 }), Buffer.alloc(99))
  for (const bytes of [broken, large]) {
    const { id } = await store(app, account, bytes)
    // The limit of pixels also holds for a picture whose dimensions were not known at the upload.
    await app.database.asset.update({ where: { id }, data: { width: 700, height: 500 } })
    const asset = await readAsset(app, account, { id })
    t.equal(asset.variants.length, 4)
    const made = await attemptsOf(app, async () => {
      for (const { url } of asset.variants) t.equal((await askPatiently(app, url)).statusCode, 404)
    })
    t.match(made, { refused: 1 })
    t.same((await readAsset(app, account, asset)).variants, [])
    t.equal((await ask(app, asset.url)).statusCode, 200, 'the original is served on')
  }
})

t.test('a picture is given up after it has killed three child processes', async (t) => {
  const app = await shared()
  const account = await signUp(app)
  // The child process has read a small picture when it dies. Of a large one, bytes are left.
  const noise = { type: 'gaussian', sigma: 60 } as const
  const noisy = { create: { width: 1000, height: 1000, channels: 3, background: '#456', noise } } as const
  const asset = await store(app, account, photo)
  const large = await store(app, account, await sharp(noisy).jpeg({ quality: 100 }).toBuffer())
  const { files } = app
  for (const [at, { variants }] of [large, asset, asset, asset].entries()) {
    const child = await stopChild(app)
    const opened = new Promise<void>((resolve) => {
      files.open = async (...args) => {
        const file = await Object.getPrototypeOf(files).open.apply(files, args)
        if (file !== undefined) setImmediate(resolve) // the child process has got its task by then
        return file
      }
    })
    const asked = ask(app, variants[at]?.url as string)
    await opened
    Reflect.deleteProperty(files, 'open')
    child.kill('SIGKILL')
    const response = await asked
    t.match(response, { statusCode: 503, headers: { 'retry-after': '2' } })
  }
  for (const { url } of asset.variants) t.equal((await ask(app, url)).statusCode, 404)
  t.same((await readAsset(app, account, asset)).variants, [])
  t.equal((await askPatiently(app, large.variants[0]?.url as string)).statusCode, 200, 'once is not enough')
})

t.test('a child process that dies leaves no part of a variant', async (t) => {
  const app = await shared()
  const asset = await store(app, await signUp(app), photo)
  const [variant] = asset.variants as [Variant]
  const { files } = app
  files.receive = async (...args) => {
    const staged = await Object.getPrototypeOf(files).receive.apply(files, args)
    const child = children.at(-1) as ChildProcess
    child.kill('SIGKILL')
    await once(child, 'close')
    return staged
  }
  t.equal((await ask(app, variant.url)).statusCode, 503)
  Reflect.deleteProperty(files, 'receive')
  await until(async () => (await stored(app)).temporary.length === 0, 'the temporary file is removed')
  t.equal((await filesOf(app, asset)).length, 1)
  t.match(await attemptsOf(app, async () => await askPatiently(app, variant.url)), { made: 1, failed: 0 })
})

t.test('four requests of a client may wait for ten seconds, in which their variant stays locked', async (t) => {
  const app = await shared()
  const child = await stopChild(app)
  const { variants } = await store(app, await signUp(app), await picture(1000, 700).jpeg().toBuffer())
  const [other = '', ...urls] = variants.map(({ url }) => url)
  const before = await attempts(app)
  const waiting = urls.slice(0, 4).map(async (url) => await ask(app, url, '203.0.113.7'))
  const refused = await ask(app, urls[4] as string, '203.0.113.7')
  t.match([refused.statusCode, refused.json()], [503, { errors: [/try again/] }])
  const others = ask(app, other, '203.0.113.8')

  // The lock is short, so that a crash costs seconds, and it is renewed.
  const redis = app.redisClient as RedisClient
  const [lock] = await until(async () => {
    const keys = await redis.run(async (redis) => await redis.keys('landfall:variant:2:*'))
    return keys.length > 0 && keys
  }, 'a variant is locked') as [string]
  const seen: number[] = []
  const isRenewed = async () => {
    seen.push(await redis.run(async (redis) => await redis.pttl(lock)))
    return seen.length > 1 && seen.at(-1) as number > (seen.at(-2) as number)
  }
  for (let renewal = 1; renewal <= 2; renewal++) await until(isRenewed, 'it is renewed')
  t.same(seen.filter((ms) => ms <= 0 || ms > 5000), [], 'its lifetime in milliseconds')

  for (const response of await Promise.all(waiting)) {
    t.match(response, { statusCode: 503, headers: { 'retry-after': '2' } })
  }
  const { unavailable = 0, made = 0 } = await attempts(app)
  t.ok(unavailable - (before.unavailable ?? 0) >= 4, 'each request that waited too long counts')
  child.kill('SIGCONT')
  t.ok([200, 503].includes((await others).statusCode))
  for (const { url } of variants) {
    await until(async () => (await ask(app, url)).statusCode === 200, 'it is made when its client asks again')
  }
  const after = await attempts(app)
  t.same([(after.made ?? 0) - made, after.failed], [variants.length, before.failed])
  t.equal(await redis.run(async (redis) => await redis.exists(lock)), 0, 'the lock is released')
})

t.test('the variants of an account do not wait for those of another one, however many addresses ask', async (t) => {
  const app = await shared()
  const child = await stopChild(app)
  const [greedy, other] = [await signUp(app), await signUp(app)]
  const own = (await store(app, other, photo)).variants.map(({ url }) => url)
  const large = await picture(1400, 1000).jpeg().toBuffer()
  const urls: string[] = []
  while (urls.length < 24) urls.push(...(await store(app, greedy, large)).variants.map(({ url }) => url))
  const load = urls.map(async (url, place) => await ask(app, url, `198.51.100.${place % 6}`))
  const waiting = async () => Number(/queued (\d+)/.exec(await app.metrics.metrics())?.[1])
  await until(async () => await waiting() === 23)
  const asked = own.map(async (url) => await askPatiently(app, url, '203.0.113.9'))
  await until(async () => await waiting() === 23 + asked.length)
  child.kill('SIGCONT')
  t.same((await Promise.all(asked)).map(({ statusCode }) => statusCode), asked.map(() => 200))
  t.ok(await waiting() > 12, 'most of the others still wait')
  await Promise.all(load)
})

t.test('replicas make each variant once', async (t) => {
  const app = await shared()
  const replicas = [app, await buildTestApp(t, settings), await buildTestApp(t, settings)]
  const asset = await store(app, await signUp(app), await picture(1000, 700).jpeg().toBuffer())
  const before = await attempts(app)
  await Promise.all(asset.variants.map(async ({ url }, place) => {
    const responses = await Promise
      .all(replicas.map(async (replica) => await askPatiently(replica, url, `198.51.100.${place}`)))
    t.same(responses.map(({ statusCode }) => statusCode), [200, 200, 200])
    t.equal(new Set(responses.map(({ headers }) => headers.etag)).size, 1)
  }))
  const made = await Promise.all(replicas.map(async (replica) => (await attempts(replica)).made ?? 0))
  t.equal(made.reduce((sum, count) => sum + count) - (before.made ?? 0), asset.variants.length)
})

onEachStore('variants of deleted assets are swept, also those made during the deletion', async (t, build) => {
  const app = await shared(build)
  const account = await signUp(app)
  const [gone, kept] = [await store(app, account, photo), await store(app, account, photo)]
  for (const { variants: [variant] } of [gone, kept]) await askPatiently(app, variant?.url as string)
  // As if the process had died between the row and the files.
  await app.database.asset.delete({ where: { id: gone.id } })
  t.match(await sweep(app.database, app.files, 0), { unreferenced: 1 })
  await backstage(app).put(gone.variants[0]?.url.replace(/.*uploads/, '.variants') as string, 'x')
  t.match(await sweep(app.database, app.files), { variants: 1 })
  t.same([(await filesOf(app, gone)).length, (await filesOf(app, kept)).length], [0, 2])
  t.equal((await ask(app, kept.variants[0]?.url as string)).statusCode, 200)
})

onEachStore('deleting an account deletes variants that are being made', async (t, build) => {
  const app = await shared(build)
  const account = await signUp(app)
  const asset = await store(app, account, photo)
  const [first, second] = asset.variants as [Variant, Variant]
  t.equal((await askPatiently(app, first.url)).statusCode, 200)
  const { files } = app
  files.remove = async (key) => {
    const existed = await Object.getPrototypeOf(files).remove.call(files, key)
    // As if it had been made of a file that was opened before it was removed.
    const name = second.url.replace(/.*uploads/, '.variants')
    await backstage(app).put(name, 'x')
    await until(async () => (await filesOf(app, asset)).includes(name), 'a bucket that is busy lists it late')
    return existed
  }
  t.equal((await sendAs(app, account, 'DELETE', '/auth/me', { password: PASSWORD })).statusCode, 204)
  Reflect.deleteProperty(files, 'remove')
  t.same(await filesOf(app, asset), [])
  for (const gone of [asset, first, second]) t.equal((await ask(app, gone.url)).statusCode, 404)
})
