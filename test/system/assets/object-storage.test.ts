import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { get as httpGet, type IncomingMessage } from 'node:http'
import { HeadObjectCommand } from '@aws-sdk/client-s3'
import type { FastifyInstance } from 'fastify'
import sharp from 'sharp'
import t, { type Test } from 'tap'
import { newStorageKey } from '../../../src/modules/assets/storage/storage-key.ts'
import { sweep } from '../../../src/modules/assets/cleanup.ts'
import { buildTestApp, listen, signUp, testSettings, type Account } from '../../helpers/app.ts'
import { createBucket, s3Client } from '../../helpers/buckets.ts'
import { provide } from '../../shared/programs.ts'
import { createProxy, type Proxy } from '../../helpers/proxy.ts'
import { startService } from '../../helpers/service.ts'
import { END, file, form, FORM, insertAssets, noise, partHead, pathOf, PDF, PNG, uploadHead,
  upload } from '../../helpers/assets.ts'
import { connection, Connection } from '../../helpers/raw.ts'
import { until } from '../../helpers/until.ts'
import { tiff } from '../../helpers/images.ts'
import { asJpeg, card } from '../../shared/pictures.ts'
import { backstage, stored } from '../../helpers/stores.ts'
import { ask, askPatiently, pictureProcesses, store, type Variant } from '../../helpers/variants.ts'

// Behaviour and faults that only exist with a bucket. buckets.test.ts runs the tests that folders share.

provide('swift')

const MEBIBYTE = 1024 * 1024
const LARGE = noise(12 * MEBIBYTE)

interface ProxiedService {
  app: FastifyInstance
  account: Account
  proxy: Proxy
  url: string
}

const LARGE_FORM = form(file(LARGE))

/** Sends the first bytes of a large upload. If they contain a whole part, waits until it is being stored. */
async function beginUpload (
  t: Test,
  { app, account, url }: ProxiedService,
  bytes: number
): Promise<Connection> {
  const raw = connection(t, url)
  raw.send(uploadHead(account, { 'content-length': `${LARGE_FORM.length}` }))
  raw.send(LARGE_FORM.subarray(0, bytes))
  if (bytes > 5 * MEBIBYTE) {
    await until(async () => (await stored(app)).temporary.length === 1, 'the first part is being stored')
  }
  return raw
}

/** Starts a service that reaches its object storage through a proxy, which can break connections. */
async function behindProxy (t: Test, settings: Record<string, string> = {}): Promise<ProxiedService> {
  const bucket = await createBucket()
  const proxy = await createProxy(t, bucket.AWS_ENDPOINT_URL_S3)
  const app = await buildTestApp(t, {
    ...bucket,
    AWS_ENDPOINT_URL_S3: new URL(proxy.url).origin,
    S3_TIMEOUT_MS: '1000',
    ...settings
  })
  return { app, account: await signUp(app), proxy, url: await listen(app) }
}

t.test('a large file is sent in parts, and its dimensions are found at any position', async (t) => {
  const { app, account } = await behindProxy(t)
  const large = (await upload(app, account, LARGE)).json()
  t.ok((await app.inject(pathOf(large))).rawPayload.equals(LARGE))
  t.ok((await app.inject({
    url: pathOf(large),
    headers: { range: `bytes=${5 * MEBIBYTE - 10}-${5 * MEBIBYTE + 9}` }
  })).rawPayload.equals(LARGE.subarray(5 * MEBIBYTE - 10, 5 * MEBIBYTE + 10)))
  // The size stands before the end of the first part, in the middle of the second, and across their border.
  for (const size of [3 * MEBIBYTE, 8 * MEBIBYTE, 5 * MEBIBYTE - 20]) {
    const picture = Buffer.concat([tiff(123, 456, size), Buffer.alloc(6 * MEBIBYTE)])
    t.match((await upload(app, account, picture)).json(), {
      content_type: 'image/tiff',
      width: 123,
      height: 456
    })
  }
  t.strictSame((await stored(app)).temporary, [])
})

t.test('a CDN can serve the objects, which have the headers of the service, at the URL in the record', async (t) => {
  const { app, account } = await behindProxy(t, { UPLOADS_PUBLIC_URL: 'https://cdn.example.com/files/' })
  const { UPLOADS_URL = '', AWS_ENDPOINT_URL_S3 = '', AWS_ACCESS_KEY_ID = '', AWS_SECRET_ACCESS_KEY = '' } =
    app.config
  const client = s3Client({ AWS_ENDPOINT_URL_S3, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY })
  const DOWNLOAD = `attachment; filename="täst"; filename*=UTF-8''t%C3%A4st`.replace('ä', '_')
  const cases: [content: Buffer | string, type: string, disposition: string][] = [
    [PNG, 'image/png', 'inline'],
    [PDF, 'application/pdf', 'inline'],
    ['<!DOCTYPE html><script>alert(1)</script>', 'application/octet-stream', DOWNLOAD],
    [LARGE, 'application/octet-stream', DOWNLOAD],
    ['<svg xmlns="http://www.w3.org/2000/svg"/>', 'image/svg+xml', DOWNLOAD]
  ]
  for (const [content, type, disposition] of cases) {
    const asset = (await upload(app, account, content, 'täst', 'text/html')).json()
    const [, key] = /^https:\/\/cdn\.example\.com\/files\/(\w{22}(\.\w+)?)$/.exec(asset.url) ?? []
    const object = await client
      .send(new HeadObjectCommand({ Bucket: new URL(UPLOADS_URL).hostname, Key: `some/prefix/${key}` }))
    t.match(object, {
      ContentType: type,
      ContentDisposition: disposition,
      CacheControl: 'public, max-age=31536000, immutable'
    })
    t.equal((await app.inject(`/uploads/${key}`)).statusCode, 200, 'the service still serves the file, too')
  }
})

t.test('while the storage is unreachable, requests for files get 503 in time and leave nothing behind', async (t) => {
  const { app, account, proxy } = await behindProxy(t)
  const kept = (await upload(app, account, PNG)).json()
  for (const fault of ['refuse', 'blackhole'] as const) {
    await proxy[fault]()
    const responses = await Promise.all([
      upload(app, account, PNG),
      upload(app, account, LARGE),
      app.inject(pathOf(kept)),
      app.inject({ url: pathOf(kept), headers: { range: 'bytes=0-9' } }),
      app.inject({ method: 'DELETE', url: `/assets/${kept.id}`, headers: account.headers })
    ])
    for (const answer of responses) {
      t.equal(answer.statusCode, 503, fault)
      t.ok(Number(answer.headers['retry-after']) >= 1, fault)
      t.match(answer.json(), { errors: ['The service is temporarily unavailable, try again shortly'] }, fault)
    }
    const record = await app.inject({ url: `/assets/${kept.id}`, headers: account.headers })
    t.equal(record.statusCode, 200, 'its row stays')
    t.equal((await app.inject('/health/ready')).statusCode, 200)
    await proxy.restore({ forget: true })
    await until(async () => (await app.inject(pathOf(kept))).statusCode === 200, `it is back after ${fault}`)
    t.equal((await upload(app, account, LARGE)).statusCode, 201)
  }
  t.equal(await app.database.asset.count(), 3)
  t.strictSame((await stored(app)).published.length, 3)
})

t.test('an upload survives one broken connection, and a longer outage leaves neither row nor object', async (t) => {
  const service = await behindProxy(t)
  const { app, proxy } = service
  const raw = await beginUpload(t, service, 8 * MEBIBYTE)
  await proxy.refuse()
  raw.send(LARGE_FORM.subarray(8 * MEBIBYTE))
  t.equal((await raw.response()).status, 503)
  await proxy.restore()
  t.equal(await app.database.asset.count(), 0)
  t.strictSame((await stored(app)).published, [])
  await app.files.removeUnfinished(-2000)
  t.strictSame((await stored(app)).temporary, [])

  // After a single break the part is sent again.
  const second = await beginUpload(t, service, 8 * MEBIBYTE)
  proxy.disconnect()
  second.send(LARGE_FORM.subarray(8 * MEBIBYTE))
  const answer = await second.response()
  t.equal(answer.status, 201)
  t.ok((await app.inject(pathOf(JSON.parse(String(answer.body))))).rawPayload.equals(LARGE))
})

t.test('a client that disconnects during an upload leaves nothing behind', async (t) => {
  const service = await behindProxy(t)
  const { app, account, url } = service
  for (const end of [MEBIBYTE, 6 * MEBIBYTE, LARGE_FORM.length - END.length - 1]) {
    const raw = await beginUpload(t, service, end)
    raw.socket.destroy()
    await until(async () => (await stored(app)).temporary.length === 0, 'nothing is left')
  }
  const raw = new Connection(url)
  raw.send(uploadHead(account, { 'content-length': `${partHead(file('')).length + LARGE.length}` }))
  raw.send(Buffer.concat([partHead(file('')), LARGE]))
  t.equal((await raw.response()).status, 400, 'an incomplete form')
  raw.socket.destroy()
  t.strictSame(await stored(app), { published: [], temporary: [] })
})

t.test('after SIGKILL during uploads each row has its object, and the sweep removes objects without a row', async (t) => {
  const settings = { ...await testSettings(t), ...await createBucket() }
  const app = await buildTestApp(t, settings)
  const { headers } = await signUp(app)
  const send = async (url: string, bytes: Buffer) => {
    const response = await fetch(`${url}/assets`, {
      method: 'POST',
      headers: { ...headers, 'content-type': FORM },
      body: new Uint8Array(form(file(bytes)))
    })
    await response.arrayBuffer()
  }
  const service = await startService(t, settings)
  await send(service.url, PNG)
  const running = { now: true }
  const senders = [LARGE, LARGE, PNG, PNG].map(async (bytes) => {
    while (running.now) await send(service.url, bytes).catch(() => {})
  })
  await until(async () => (await stored(app)).temporary.length > 0, 'large files are being stored')
  await service.end('SIGKILL')
  running.now = false
  await Promise.all(senders)
  // PostgreSQL and the storage may still be executing requests of the killed process.
  await new Promise((resolve) => setTimeout(resolve, 500))

  const keys = (await app.database.asset.findMany()).map(({ storageKey }) => storageKey)
  t.ok(keys.length > 0)
  const { published } = await stored(app)
  t.ok(keys.every((key) => published.includes(key)), 'before any sweep')
  await sweep(app.database, app.files, -2000)
  t.strictSame({ ...await stored(app), published: (await stored(app)).published.sort() }, {
    published: keys.sort(),
    temporary: []
  })
})

/** Sends a request and reads only the beginning of the response. */
async function beginReading (url: string): Promise<IncomingMessage> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    httpGet(url, { agent: false }, resolve).on('error', reject)
  })
  response.on('error', () => {})
  await once(response, 'readable')
  return response
}

t.test('a reader that disconnects frees its connection to the storage, a slow reader keeps it, and a broken one ends the response', async (t) => {
  const { app, account, proxy, url } = await behindProxy(t, { S3_TIMEOUT_MS: '4000' })
  const address = url + pathOf((await upload(app, account, LARGE)).json())
  proxy.disconnect()
  await until(() => proxy.connections === 0, 'no connection is open')
  const readers = await Promise.all(Array.from({ length: 5 }, async () => await beginReading(address)))
  t.equal(proxy.connections, 5)
  for (const reader of readers.slice(1)) reader.destroy()
  await until(() => proxy.connections === 1, 'the connections of the four readers are closed')

  // Waits longer than S3_TIMEOUT_MS, which doesn't limit the reader.
  const [patient] = readers as [IncomingMessage]
  await new Promise((resolve) => setTimeout(resolve, 5000))
  let bytes = 0
  patient.on('data', (chunk: Buffer) => {
    bytes += chunk.length
  })
  await once(patient, 'end')
  t.equal(bytes, LARGE.length)

  for (const fault of ['disconnect', 'blackhole'] as const) {
    const reader = await beginReading(address)
    proxy[fault]()
    reader.resume()
    await until(() => reader.destroyed, `${fault}: the response ends`)
    t.notOk(reader.complete, `${fault}: the response is incomplete`)
    await proxy.restore({ forget: true })
  }
  t.equal((await fetch(address)).status, 200)
})

t.test('an unusable bucket stops the start with one line that names the setting', async (t) => {
  const settings = await testSettings(t)
  const bucket = await createBucket()
  const away = await createProxy(t, bucket.AWS_ENDPOINT_URL_S3)
  await away.refuse()
  const hopeless: [env: Record<string, string>, says: RegExp][] = [
    [
      { UPLOADS_URL: 's3://landfall-test-nothing' },
      /there is no bucket landfall-test-nothing: check UPLOADS_URL/
    ],
    [{ AWS_SECRET_ACCESS_KEY: 'wrong' }, /access is denied: check AWS_ACCESS_KEY_ID/],
    [{ AWS_ACCESS_KEY_ID: 'nobody' }, /access is denied: check AWS_ACCESS_KEY_ID/],
    [{ AWS_ACCESS_KEY_ID: 'test:guest' }, /access is denied: .* policy allows s3:GetObject/],
    [{ AWS_ENDPOINT_URL_S3: new URL(away.url).origin }, /ECONNREFUSED/]
  ]
  for (const [env, says] of hopeless) {
    const start = buildTestApp(t, { ...settings, ...bucket, ...env })
    const { message } = await start.then(() => new Error('started'), (error: Error) => error)
    t.match(message, says)
    t.match(message, /^UPLOADS_URL s3:\/\/\S+ must be [^\n]+$/)
  }
})

t.test('the sweep reads all pages of a long list', async (t) => {
  const app = await buildTestApp(t, await createBucket(''))
  const look = backstage(app)
  const kept = Array.from({ length: 25 }, () => newStorageKey('image/png'))
  await insertAssets(app, await signUp(app), kept)
  const others = Array.from({ length: 25 }, () => newStorageKey('image/gif'))
  for (const key of [...kept, ...others]) await look.put(key, 'x')
  await Promise.all(others.map(async (key) => await look.leaveUnfinished(key)))
  t.strictSame(await sweep(app.database, app.files, -2000), { unfinished: 25, unreferenced: 25, variants: 0 })
  t.strictSame((await look.published()).sort(), kept.sort())
})

t.test('a variant whose storage breaks off is made later', async (t) => {
  const { app, account, proxy } = await behindProxy(t)
  // Too large for all buffers on its way to the child process, and of noise, which can't be compressed.
  const size = { width: 2600, height: 2400, channels: 3 } as const
  const noisy = sharp(randomBytes(size.width * size.height * size.channels), { raw: size })
  const asset = await store(app, account, await noisy.png({ compressionLevel: 0 }).toBuffer())
  const [first, second] = (await store(app, account, await asJpeg(card()))).variants
  t.equal((await askPatiently(app, first?.url as string)).statusCode, 200)
  const [pid] = pictureProcesses() as [number]
  process.kill(pid, 'SIGSTOP')
  let isReading = false
  const open = app.files.open.bind(app.files)
  const { restore } = t.intercept(app.files, 'open', {
    async value (...args: Parameters<typeof open>) {
      const file = await open(...args)
      isReading ||= file !== undefined && args[0] === asset.url.split('/').at(-1)
      return file
    }
  })
  const asked = ask(app, asset.variants[0]?.url as string)
  await until(() => isReading, 'the bytes arrive, and the process takes none')
  restore()
  proxy.disconnect()
  process.kill(pid, 'SIGCONT')
  const { statusCode, headers, body } = await asked
  t.equal(statusCode, 503, body)
  t.equal(headers['retry-after'], '1')
  for (const { url } of [second, asset.variants[0]] as Variant[]) {
    await until(async () => (await ask(app, url)).statusCode === 200, url)
  }
})
