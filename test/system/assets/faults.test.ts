import { createHash } from 'node:crypto'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import t from 'tap'
import { buildTestApp, listen, signUp, testSettings } from '../../helpers/app.ts'
import { startPostgresServer } from '../../helpers/servers.ts'
import { END, file, form, noise, partHead, PNG, upload, uploadHead } from '../../helpers/assets.ts'
import { connection, Connection } from '../../helpers/raw.ts'
import { SERVE, startService } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'
import { stored } from '../../helpers/stores.ts'

const MEBIBYTE = 1024 * 1024

t.test('a missing folder is created again, and a file in its place is a 503', async (t) => {
  const app = await buildTestApp(t)
  const account = await signUp(app)
  const temporary = join(app.config.UPLOADS_DIR, '.tmp')
  await rm(temporary, { recursive: true })
  t.equal((await upload(app, account, PNG)).statusCode, 201, 'a missing folder is created again')
  await rm(temporary, { recursive: true })
  await writeFile(temporary, '')
  t.equal((await upload(app, account, PNG)).statusCode, 503)
  await rm(temporary)
  await rm(app.config.UPLOADS_DIR, { recursive: true })
  t.equal((await upload(app, account, PNG)).statusCode, 201)
  t.equal(await app.database.asset.count(), 2)
})

/** Whether every row has its file with the right hash, and every file has its row. */
async function paired (app: Awaited<ReturnType<typeof buildTestApp>>): Promise<boolean> {
  const rows = await app.database.asset.findMany()
  const { published, temporary } = await stored(app)
  if (rows.length !== published.length || temporary.length > 0) return false
  for (const row of rows) {
    const bytes = await readFile(join(app.config.UPLOADS_DIR, row.storageKey)).catch(() => Buffer.alloc(0))
    if (createHash('sha256').update(bytes).digest('hex') !== row.checksum) return false
  }
  return true
}

t.test("an upload whose row can't be written leaves no file", async (t) => {
  const settings: Record<string, string> = { ...await testSettings(t), DATABASE_TIMEOUT_MS: '500' }
  const app = await buildTestApp(t, settings)
  const account = await signUp(app)
  const locker = new pg.Client(settings.DATABASE_URL)
  await locker.connect()
  t.teardown(async () => await locker.end())

  // The row may still appear after a failure, so the file stays until it can't appear any more.
  await locker.query('BEGIN; LOCK TABLE assets')
  t.equal((await upload(app, account, PNG)).statusCode, 503, 'a table that is locked')
  const broken = upload(app, account, PNG)
  await until(async () => {
    // A transaction, as of `locker`, would see the same activity for ever.
    const ended = await app.database.$queryRaw<
      unknown[]
    >`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock'`
    return ended.length === 1
  }, 'the INSERT waits for the table, and its connection ends')
  t.equal((await broken).statusCode, 503)
  t.equal((await stored(app)).published.length, 2)
  await locker.query('ROLLBACK')
  await until(async () => await paired(app), 'the files are gone')
  t.equal(await app.database.asset.count(), 0)

  // The user is deleted between the check of the token and the INSERT.
  await locker.query('BEGIN; DELETE FROM users')
  const pending = upload(app, account, PNG)
  await until(async () => (await stored(app)).published.length === 1, 'the file waits for its row')
  await locker.query('COMMIT')
  t.equal((await pending).statusCode, 401)
  t.ok(await paired(app))
})

t.test('an upload whose INSERT has an unknown result keeps its file until the result is known', async (t) => {
  const server = await startPostgresServer(t)
  const app = await buildTestApp(t, {
    ...await testSettings(t),
    DATABASE_URL: server.url,
    DATABASE_TIMEOUT_MS: '500'
  })
  const account = await signUp(app)
  const url = await listen(app)
  const raw = connection(t, url)
  const body = form(file(PNG))
  raw.send(uploadHead(account, { 'content-length': `${body.length}` }))
  raw.send(body.subarray(0, -1))
  await until(async () => (await stored(app)).temporary.length === 1, 'the upload is under way')
  server.pause()
  raw.send(body.subarray(-1))
  t.equal((await raw.response()).status, 503)
  t.equal((await stored(app)).published.length, 1, 'the file stays while its row may still appear')
  server.resume()
  await until(async () => await paired(app).catch(() => false), 'row and file are paired again')
})

t.test("the size of an upload doesn't change memory use", async (t) => {
  const settings = { ...await testSettings(t), MAX_UPLOAD_BYTES: `${1024 * MEBIBYTE}` }
  const app = await buildTestApp(t, settings)
  const account = await signUp(app)
  const service = await startService(t, settings, SERVE, true)
  const status = async () => await readFile(`/proc/${service.child.pid}/status`, 'utf8').catch(() => '')
  if (await status() === '') return t.comment('skipped: no /proc here')
  const resident = async () => Number(/^VmRSS:\s+(\d+)/m.exec(await status())?.[1]) * 1024

  const send = async (size: number): Promise<number> => {
    const raw = new Connection(service.url)
    const chunk = noise(MEBIBYTE)
    const head = partHead(file(''))
    const tail = `\r\n${END}`
    raw.send(uploadHead(account, { 'content-length': `${head.length + size + tail.length}` }))
    raw.send(head)
    let most = 0
    for (let sent = 0; sent < size; sent += MEBIBYTE) {
      if (!raw.send(chunk)) await raw.drained()
      if (sent % (16 * MEBIBYTE) === 0) most = Math.max(most, await resident())
    }
    raw.send(tail)
    t.equal((await raw.response()).status, 201)
    raw.socket.destroy()
    return most
  }
  // The first two uploads warm up the compiler and fill the heap with buffers.
  await send(128 * MEBIBYTE)
  const small = await send(64 * MEBIBYTE)
  const large = await send(320 * MEBIBYTE)
  // The heap varies by a few buffers; a file kept in memory would be hundreds of MiB.
  t.ok(large - small < 64 * MEBIBYTE, `grew by ${Math.round((large - small) / MEBIBYTE)} MiB`)
})
