import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fastifyMultipart from '@fastify/multipart'
import Fastify from 'fastify'
import t, { type Test } from 'tap'
import { DiskStore } from '../../../src/modules/assets/storage/disk-store.ts'
import { lingeringClose } from '../../../src/http/hardening/lingering-close.ts'
import { newStorageKey } from '../../../src/modules/assets/storage/storage-key.ts'
import { multipartOptions, receiveFile } from '../../../src/modules/assets/upload/multipart-reader.ts'
import { buildTestApp, listen, NOBODY, signUp, type Account } from '../../helpers/app.ts'
import { END, file, form, noise, partHead, PNG, uploadHead } from '../../helpers/assets.ts'
import { connection, type Connection } from '../../helpers/raw.ts'
import { until } from '../../helpers/until.ts'
import { stored } from '../../helpers/stores.ts'

const MEBIBYTE = 1024 * 1024

/** A part of a chunked body. */
const chunked = (data: Buffer): Buffer =>
  Buffer.concat([Buffer.from(`${data.length.toString(16)}\r\n`), data, Buffer.from('\r\n')])

/** Sends until the connection is closed or `bytes` bytes are sent. Returns the number of bytes sent. */
async function flood (raw: Connection, bytes: number, chunk: Buffer): Promise<number> {
  let sent = 0
  while (!raw.closed && sent < bytes) {
    if (!raw.send(chunk)) await raw.drained()
    sent += chunk.length
  }
  return sent
}

const app = await buildTestApp(t)
const account = await signUp(app)
const url = await listen(app)
const strict = await buildTestApp(t, { MAX_UPLOAD_BYTES: '100000' })
const strictUrl = await listen(strict)
const limited = await signUp(strict)

const temporary = async () => (await stored(app)).temporary.length

t.test('an upload aborted at any point leaves no file and no record', async (t) => {
  const body = form(file(noise(3 * MEBIBYTE)))
  const last = body.length - END.length
  const lengths: Record<string, string>[] = [
    { 'content-length': `${body.length}` },
    { 'transfer-encoding': 'chunked' }
  ]
  for (const end of [0, partHead(file('')).length, 100_000, MEBIBYTE, last - 1, last + 2, body.length - 1]) {
    for (const headers of lengths) {
      const raw = connection(t, url)
      raw.send(uploadHead(account, headers))
      if ('transfer-encoding' in headers) raw.send(`${body.length.toString(16)}\r\n`)
      raw.send(body.subarray(0, end))
      if (end >= 100_000) await until(async () => await temporary() === 1, 'the file is being written')
      else await new Promise((resolve) => setTimeout(resolve, 30))
      raw.socket.destroy()
      await until(async () => await temporary() === 0, `no temporary file is left after ${end} bytes`)
    }
  }
  t.strictSame(await stored(app), { published: [], temporary: [] })
  t.equal(await app.database.asset.count(), 0)
})

t.test('an upload whose Content-Length exceeds the limit is refused before its body arrives', async (t) => {
  const raw = connection(t, strictUrl)
  raw.send(uploadHead(limited, { 'content-length': `${100 * MEBIBYTE}` }))
  const { status, head, body } = await raw.response()
  t.equal(status, 413)
  t.match(head, /connection: close/i)
  t.equal(String(body), '{"errors":["File is too large (maximum is 100000 bytes)"]}')
  await until(() => raw.closed, 'the idle connection is closed', 20_000)
  t.strictSame(await stored(strict), { published: [], temporary: [] })
})

t.test('a refusal reaches clients that start to read only after they have sent the whole body', async (t) => {
  const size = 32 * MEBIBYTE
  const chunk = noise(MEBIBYTE)
  const start = partHead(file(''))
  const length = { 'content-length': `${size + 1000}` }
  const chunks = { 'transfer-encoding': 'chunked' }
  const second = Buffer.concat([form(file(PNG)).subarray(0, -END.length), start])
  const picture = { ...length, 'content-type': 'image/png' }
  const stranger = { headers: { authorization: 'Bearer x' } }
  type Case = [
    name: string,
    statuses: number[],
    account: Pick<Account, 'headers'>,
    headers: Record<string, string>,
    start: Buffer
  ]
  const cases: Case[] = [
    ['a Content-Length over the limit', [413], limited, length, start],
    ['a chunked file over the limit', [413], limited, chunks, start],
    ['a wrong content type', [415], limited, picture, Buffer.from('')],
    ['a second file', [413, 422], limited, chunks, second],
    ['an invalid token', [401], stranger, length, start]
  ]
  for (const [name, statuses, sender, headers, start] of cases) {
    const raw = connection(t, strictUrl)
    raw.socket.pause()
    raw.send(uploadHead(sender, headers))
    const framed = (data: Buffer) => 'transfer-encoding' in headers ? chunked(data) : data
    raw.send(framed(Buffer.concat([start, Buffer.from('x')])))
    await flood(raw, size, framed(chunk))
    raw.socket.resume()
    const answer = await raw.response()
    t.ok(statuses.includes(answer.status), `${name}: ${answer.status}`)
    t.type(JSON.parse(String(answer.body)).errors[0], 'string', name)
    raw.socket.destroy()
    t.strictSame(await stored(strict), { published: [], temporary: [] }, name)
  }
})

t.test('an upload without an end gets 413 and is disconnected', async (t) => {
  const chunk = chunked(noise(MEBIBYTE))
  const endless: [name: string, start: Buffer][] = [
    ['a file', partHead(file(''))],
    ['a field', partHead({ name: 'other', content: '' })],
    ['a preamble', Buffer.from('x')],
    ['the headers of a part', partHead(file('')).subarray(0, -4)],
    ['an epilogue', form(file(PNG))]
  ]
  for (const [name, start] of endless) {
    const raw = connection(t, strictUrl)
    raw.send(uploadHead(limited, { 'transfer-encoding': 'chunked' }))
    raw.send(chunked(start))
    const sent = await flood(raw, 1024 * MEBIBYTE, chunk)
    t.ok(raw.closed && sent < 400 * MEBIBYTE, `${name}: cut off after ${Math.round(sent / MEBIBYTE)} MiB`)
    t.equal((await raw.response()).status, 413, name)
    t.strictSame(await stored(strict), { published: [], temporary: [] }, name)
  }
})

/** Starts a minimal app with only an upload route, so that the time limits can be short. */
async function impatientApp (t: Test) {
  const folder = await mkdtemp(join(tmpdir(), 'landfall-test-'))
  t.teardown(async () => await rm(folder, { recursive: true, force: true }))
  const app = Fastify()
  const store = new DiskStore(folder, app.log)
  await store.prepare()
  await app.register(fastifyMultipart, multipartOptions(1000))
  app.post(
    '/assets',
    { onSend: lingeringClose({ bytes: MEBIBYTE, durationMs: 1500, idleMs: 300 }) },
    async (request) => {
      const stored = await receiveFile(
        request,
        1000,
        async (stream) => await store.receive(stream, async () => ({ key: newStorageKey('') })),
        300
      )
      await stored.discard()
      return 'ok'
    }
  )
  t.teardown(async () => await app.close())
  return { url: await app.listen({ host: '127.0.0.1', port: 0 }), folder }
}

t.test('a stalled upload is disconnected, a slow one succeeds', async (t) => {
  const { url, folder } = await impatientApp(t)
  const left = async () => (await readdir(join(folder, '.tmp'))).length

  const silent = connection(t, url)
  silent.send(uploadHead(NOBODY, { 'content-length': '1000' }))
  silent.send(Buffer.concat([partHead(file('')), Buffer.from('abc')]))
  await until(async () => await left() === 1, 'the file is being written')
  t.equal((await silent.response()).status, 408)
  await until(() => silent.closed, 'a client that stalls in its body is disconnected')
  await until(async () => await left() === 0, 'its file is removed')

  const mute = connection(t, url)
  mute.send(uploadHead(NOBODY, { 'content-length': '1000' }))
  await until(() => mute.closed, 'a client that sends no body is disconnected')

  const refused = connection(t, url)
  refused.send(uploadHead(NOBODY, { 'content-length': '900000000' }))
  const dripping = setInterval(() => refused.send('x'), 50)
  t.teardown(() => clearInterval(dripping))
  t.equal((await refused.response()).status, 413)
  await until(() => refused.closed, 'a client that keeps sending after its refusal is disconnected')

  const slow = connection(t, url)
  const body = form(file('abc'))
  slow.send(uploadHead(NOBODY, { 'content-length': `${body.length}` }))
  for (let at = 0; at < body.length; at += 20) {
    slow.send(body.subarray(at, at + 20))
    await new Promise((resolve) => setTimeout(resolve, 60))
  }
  t.equal((await slow.response()).status, 200, 'a slow client succeeds')
})
