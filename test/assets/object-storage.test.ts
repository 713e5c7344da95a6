import { once } from 'node:events'
import { get as httpGet, type IncomingMessage } from 'node:http'
import { HeadObjectCommand } from '@aws-sdk/client-s3'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { Bucket } from '../../src/assets/s3-client.ts'
import { S3Upload } from '../../src/assets/s3-upload.ts'
import { newStorageKey } from '../../src/assets/storage-key.ts'
import { sweep } from '../../src/assets/sweep.ts'
import { buildTestApp, listen, signUp, testSettings, type Account } from '../helpers/app.ts'
import { createBucket, s3Client } from '../helpers/buckets.ts'
import { provide } from '../helpers/programs.ts'
import { createProxy, type Proxy } from '../helpers/proxy.ts'
import { startService } from '../helpers/service.ts'
import { END, file, form, FORM, noise, partHead, pathOf, PDF, PNG, RawClient, upload } from './helpers.ts'
import { until } from '../helpers/until.ts'
import { tiff } from './images.ts'
import { stored } from './stores.ts'

// What is different, or can break, when files are in a bucket. The tests beside this one run on folder and bucket alike.

provide('swift')

const MEBIBYTE = 1024 * 1024
const LARGE = noise(12 * MEBIBYTE)

interface Behind { app: FastifyInstance, account: Account, proxy: Proxy, url: string }

/** A service whose object storage is behind a line that can break. */
async function behindProxy (t: Test, settings: Record<string, string> = {}): Promise<Behind> {
  const bucket = await createBucket()
  const proxy = await createProxy(t, bucket.AWS_ENDPOINT_URL_S3)
  const app = await buildTestApp(t, { settings: { ...await testSettings(t), ...bucket, AWS_ENDPOINT_URL_S3: new URL(proxy.url).origin, S3_TIMEOUT_MS: '1000', ...settings } })
  return { app, account: await signUp(app), proxy, url: await listen(app) }
}

t.test('a large file goes in parts, and its dimensions are found wherever they stand', async (t) => {
  const { app, account } = await behindProxy(t)
  const large = (await upload(app, account, LARGE)).json()
  t.ok((await app.inject(pathOf(large))).rawPayload.equals(LARGE))
  t.ok((await app.inject({ url: pathOf(large), headers: { range: `bytes=${5 * MEBIBYTE - 10}-${5 * MEBIBYTE + 9}` } })).rawPayload.equals(LARGE.subarray(5 * MEBIBYTE - 10, 5 * MEBIBYTE + 10)))
  // Before the first part has gone, in the middle of one that has, and across the border of two.
  for (const size of [3 * MEBIBYTE, 8 * MEBIBYTE, 5 * MEBIBYTE - 20]) {
    const picture = Buffer.concat([tiff(123, 456, size), Buffer.alloc(6 * MEBIBYTE)])
    t.match((await upload(app, account, picture)).json(), { content_type: 'image/tiff', width: 123, height: 456 })
  }
  t.strictSame((await stored(app)).temporary, [])
})

t.test('a CDN or the bucket can serve the files: their headers are on them, and records have their public address', async (t) => {
  const { app, account } = await behindProxy(t, { UPLOADS_PUBLIC_URL: 'https://cdn.example.com/files/' })
  const { UPLOADS_URL = '', AWS_ENDPOINT_URL_S3 = '', AWS_ACCESS_KEY_ID = '', AWS_SECRET_ACCESS_KEY = '' } = app.config
  const client = s3Client({ AWS_ENDPOINT_URL_S3, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY })
  const cases: [content: Buffer | string, type: string, disposition: string][] = [
    [PNG, 'image/png', 'inline'], [PDF, 'application/pdf', 'inline'], ['<!DOCTYPE html><script>alert(1)</script>', 'application/octet-stream', 'attachment'],
    [LARGE, 'application/octet-stream', 'attachment'], ['<svg xmlns="http://www.w3.org/2000/svg"/>', 'image/svg+xml', 'attachment']
  ]
  for (const [content, type, disposition] of cases) {
    const asset = (await upload(app, account, content, 'x', 'text/html')).json()
    const [, key] = /^https:\/\/cdn\.example\.com\/files\/(\w{22}(\.\w+)?)$/.exec(asset.url) ?? []
    const object = await client.send(new HeadObjectCommand({ Bucket: new URL(UPLOADS_URL).hostname, Key: `some/prefix/${key}` }))
    t.match(object, { ContentType: type, ContentDisposition: disposition, CacheControl: 'public, max-age=31536000, immutable' })
    t.equal((await app.inject(`/uploads/${key}`)).statusCode, 200, 'the service goes on serving it too')
  }
})

t.test('a storage that is away: 503 in time, nothing left behind, everything else serves, and it recovers by itself', async (t) => {
  const { app, account, proxy } = await behindProxy(t)
  const kept = (await upload(app, account, PNG)).json()
  const faults: [name: string, begin: () => unknown][] = [['refused', async () => await proxy.refuse()], ['black-holed', () => proxy.blackhole()]]
  for (const [name, begin] of faults) {
    await begin()
    const answers = await Promise.all([
      upload(app, account, PNG),
      upload(app, account, LARGE),
      app.inject(pathOf(kept)),
      app.inject({ url: pathOf(kept), headers: { range: 'bytes=0-9' } }),
      app.inject({ method: 'DELETE', url: `/assets/${kept.id}`, headers: account.headers })
    ])
    for (const answer of answers) {
      t.equal(answer.statusCode, 503, name)
      t.ok(Number(answer.headers['retry-after']) >= 1, name)
      t.strictSame(answer.json(), { errors: ['The service is temporarily unavailable, try again shortly'] }, name)
    }
    t.equal((await app.inject({ url: `/assets/${kept.id}`, headers: account.headers })).statusCode, 200, 'its row stays')
    t.equal((await app.inject('/health/ready')).statusCode, 200)
    await proxy.restore({ forget: true })
    await until(async () => (await app.inject(pathOf(kept))).statusCode === 200, `it is back after ${name}`)
    t.equal((await upload(app, account, LARGE)).statusCode, 201)
  }
  t.equal(await app.database.asset.count(), 3)
  t.strictSame((await stored(app)).published.length, 3)
})

t.test('a line that breaks in the middle of an upload leaves no row, and no object but what the sweep finds', async (t) => {
  const { app, account, proxy, url } = await behindProxy(t)
  const raw = new RawClient(url)
  t.teardown(() => raw.socket.destroy())
  const body = form(file(LARGE))
  raw.head(account, { 'content-length': `${body.length}` })
  raw.write(body.subarray(0, 8 * MEBIBYTE))
  await until(async () => (await stored(app)).temporary.length === 1, 'the first part is on its way')
  await proxy.refuse()
  raw.write(body.subarray(8 * MEBIBYTE))
  t.equal((await raw.answer()).status, 503)
  await proxy.restore()
  t.equal(await app.database.asset.count(), 0)
  t.strictSame((await stored(app)).published, [])
  await app.files.removeUnfinished(-2000)
  t.strictSame((await stored(app)).temporary, [])

  // One break is not the end: a part is sent again.
  const second = new RawClient(url)
  t.teardown(() => second.socket.destroy())
  second.head(account, { 'content-length': `${body.length}` })
  second.write(body.subarray(0, 8 * MEBIBYTE))
  await until(async () => (await stored(app)).temporary.length === 1, 'the first part is on its way')
  proxy.disconnect()
  second.write(body.subarray(8 * MEBIBYTE))
  const answer = await second.answer()
  t.equal(answer.status, 201)
  t.ok((await app.inject(pathOf(JSON.parse(answer.body)))).rawPayload.equals(LARGE))
})

t.test('whenever its storage fails, an upload gives its memory back', async (t) => {
  const { app, proxy } = await behindProxy(t)
  const bucket = new Bucket({ ...app.config, UPLOADS_URL: app.config.UPLOADS_URL ?? '' }, app.log)
  t.teardown(() => bucket.close())
  for (const good of [0, 1, 2, 3]) {
    let held = 0
    const upload = new S3Upload(bucket, 5 * MEBIBYTE, (change) => { held += change })
    await t.rejects(upload.receive(parts(good, async () => await proxy.refuse()), async () => ({ key: newStorageKey(''), wanted: undefined })))
    t.equal(held, 0, `after ${good} parts`)
    await proxy.restore({ forget: true })
  }

  async function * parts (good: number, fail: () => Promise<void>): AsyncGenerator<Uint8Array> {
    for (let part = 0; part < 4; part++) {
      if (part === good) await fail()
      yield noise(5 * MEBIBYTE)
    }
  }
})

t.test('whoever hangs up in the middle of an upload leaves nothing', async (t) => {
  const { app, account, url } = await behindProxy(t)
  const body = form(file(LARGE))
  for (const end of [MEBIBYTE, 6 * MEBIBYTE, body.length - END.length - 1]) {
    const raw = new RawClient(url)
    raw.head(account, { 'content-length': `${body.length}` })
    raw.write(body.subarray(0, end))
    if (end > 5 * MEBIBYTE) await until(async () => (await stored(app)).temporary.length === 1, 'the first part is on its way')
    raw.socket.destroy()
    await until(async () => (await stored(app)).temporary.length === 0, 'nothing is left')
  }
  const raw = new RawClient(url)
  raw.head(account, { 'content-length': `${partHead(file('')).length + LARGE.length}` })
  raw.write(Buffer.concat([partHead(file('')), LARGE]))
  t.equal((await raw.answer()).status, 400, 'a form that is cut')
  raw.socket.destroy()
  t.strictSame(await stored(app), { published: [], temporary: [] })
})

t.test('killed in the middle of uploads: rows have their objects, and the sweep removes what has no row', async (t) => {
  const settings = { ...await testSettings(t), ...await createBucket() }
  const app = await buildTestApp(t, { settings })
  const { headers } = await signUp(app)
  const send = async (url: string, bytes: Buffer) => {
    const response = await fetch(`${url}/assets`, { method: 'POST', headers: { ...headers, 'content-type': FORM }, body: new Uint8Array(form(file(bytes))) })
    await response.arrayBuffer()
  }
  const service = await startService(t, settings)
  await send(service.url, PNG)
  const running = { now: true }
  const senders = [LARGE, LARGE, PNG, PNG].map(async (bytes) => { while (running.now) await send(service.url, bytes).catch(() => {}) })
  await until(async () => (await stored(app)).temporary.length > 0, 'large files are on their way')
  await service.end('SIGKILL')
  running.now = false
  await Promise.all(senders)
  // What the dead process had under way in PostgreSQL and in the storage has ended by then.
  await new Promise((resolve) => setTimeout(resolve, 500))

  const keys = (await app.database.asset.findMany()).map(({ storageKey }) => storageKey)
  t.ok(keys.length > 0)
  const { published } = await stored(app)
  t.ok(keys.every((key) => published.includes(key)), 'before any sweep')
  await sweep(app.database, app.files, { unfinishedAgeMs: -2000, unreferencedAgeMs: -2000 })
  t.strictSame({ ...await stored(app), published: (await stored(app)).published.sort() }, { published: keys.sort(), temporary: [] })
})

/** Begins to read and stops. */
async function beginReading (url: string): Promise<IncomingMessage> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => { httpGet(url, { agent: false }, resolve).on('error', reject) })
  response.on('error', () => {})
  await once(response, 'readable')
  return response
}

t.test('a reader who hangs up frees the connection to the storage, one who waits keeps it, and a line that stops ends the answer', async (t) => {
  const { app, account, proxy, url } = await behindProxy(t)
  const address = url + pathOf((await upload(app, account, LARGE)).json())
  proxy.disconnect()
  await until(() => proxy.connections === 0, 'no connection is open')
  const readers = await Promise.all(Array.from({ length: 5 }, async () => await beginReading(address)))
  t.equal(proxy.connections, 5)
  for (const reader of readers.slice(1)) reader.destroy()
  await until(() => proxy.connections === 1, 'theirs are free')

  // Longer than the storage may take to answer: the reader's own time doesn't count.
  const [patient] = readers as [IncomingMessage]
  await new Promise((resolve) => setTimeout(resolve, 1500))
  let bytes = 0
  patient.on('data', (chunk: Buffer) => { bytes += chunk.length })
  await once(patient, 'end')
  t.equal(bytes, LARGE.length)

  for (const [name, fault] of [['cut', () => proxy.disconnect()], ['black-holed', () => proxy.blackhole()]] as const) {
    const reader = await beginReading(address)
    fault()
    reader.resume()
    await until(() => reader.destroyed, `${name}: the answer ends`)
    t.notOk(reader.complete, `${name}: and nobody takes it for whole`)
    await proxy.restore({ forget: true })
  }
  t.equal((await fetch(address)).status, 200)
})

t.test('a bucket that can not be used stops the start, in a line that names the setting', async (t) => {
  const settings = await testSettings(t)
  const bucket = await createBucket()
  const away = await createProxy(t, bucket.AWS_ENDPOINT_URL_S3)
  await away.refuse()
  const hopeless: [env: Record<string, string>, says: RegExp][] = [
    [{ UPLOADS_URL: 's3://landfall-test-nothing' }, /there is no bucket landfall-test-nothing: check UPLOADS_URL/],
    [{ AWS_SECRET_ACCESS_KEY: 'wrong' }, /access is denied: check AWS_ACCESS_KEY_ID/],
    [{ AWS_ACCESS_KEY_ID: 'nobody' }, /access is denied: check AWS_ACCESS_KEY_ID/],
    [{ AWS_ACCESS_KEY_ID: 'test:guest' }, /access is denied: .* policy allows s3:GetObject/],
    [{ AWS_ENDPOINT_URL_S3: new URL(away.url).origin }, /ECONNREFUSED/]
  ]
  for (const [env, says] of hopeless) {
    await t.rejects(buildTestApp(t, { settings: { ...settings, ...bucket, ...env } }), { message: says }, String(says))
    await t.rejects(buildTestApp(t, { settings: { ...settings, ...bucket, ...env } }), { message: /^UPLOADS_URL s3:\/\/\S+ must be [^\n]+$/ })
  }
})

t.test('access that is taken away says in the log what to check, without a secret', async (t) => {
  const bucket = await createBucket()
  const lines: unknown[] = []
  const { openFileStore } = await import('../../src/assets/file-store.ts')
  const store = await openFileStore({ UPLOADS_DIR: '', ...bucket, AWS_SECRET_ACCESS_KEY: 'not the secret' }, { error: (...line: unknown[]) => { lines.push(line) } })
  t.teardown(() => store.close())
  await t.rejects(store.assertWritable(), { message: /temporarily unavailable/ })
  await t.rejects(store.look(`${'x'.repeat(22)}.png`), { message: /temporarily unavailable/ })
  t.equal(lines.length, 2)
  const text = JSON.stringify(lines)
  t.match(text, /"hint":"access is denied: check AWS_ACCESS_KEY_ID/)
  t.notMatch(text, /not the secret/)
})
