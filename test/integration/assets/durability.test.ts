import { chmod, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { sweep } from '../../../src/modules/assets/cleanup.ts'
import { newStorageKey } from '../../../src/modules/assets/storage/storage-key.ts'
import { randomPublicId } from '../../../src/infra/system/identifiers.ts'
import { buildTestApp, signUp } from '../../helpers/app.ts'
import { PNG, upload } from '../../helpers/assets.ts'
import { until } from '../../helpers/until.ts'
import { stored } from '../../helpers/stores.ts'

t.test('only the user of the service can list a folder for uploads that it creates; others keep their mode', async (t) => {
  const first = await buildTestApp(t)
  const { UPLOADS_DIR, DATABASE_URL } = first.config
  const folder = join(UPLOADS_DIR, 'missing/too')
  const umask = process.umask(0o022)
  t.teardown(() => process.umask(umask))
  const lines: string[] = []
  const logger = pino({ level: 'warn' }, { write: (line: string) => lines.push(line) })
  const modeAfterStart = async () => {
    await buildTestApp(t, { UPLOADS_DIR: folder, DATABASE_URL }, logger)
    return (await stat(folder)).mode & 0o777
  }
  t.equal(await modeAfterStart(), 0o700)
  t.equal((await stat(dirname(folder))).mode & 0o777, 0o755, 'its parent folder is like any other')
  await chmod(folder, 0o711)
  t.equal(await modeAfterStart(), 0o711)
  t.same(lines, [])
  await chmod(folder, 0o755)
  t.equal(await modeAfterStart(), 0o755)
  t.equal(lines.length, 1)
  t.match(lines[0], /Other users can list UPLOADS_DIR \S+missing\/too\. Set its mode to 0700/)
  await rm(UPLOADS_DIR, { recursive: true })
  t.equal((await upload(first, await signUp(first), PNG)).statusCode, 201)
  t.equal((await stat(UPLOADS_DIR)).mode & 0o777, 0o700, 'removed while the service runs')
  t.equal((await stat(join(UPLOADS_DIR, '.tmp'))).mode & 0o777, 0o700)
})

t.test('the service sweeps at its start and every hour, and keeps files younger than an hour', async (t) => {
  const first = await buildTestApp(t)
  const { UPLOADS_DIR: folder, DATABASE_URL } = first.config
  const leave = async () => {
    await writeFile(join(folder, newStorageKey('image/png')), 'x')
    await writeFile(join(folder, '.tmp', randomPublicId()), 'x')
  }
  const left = async () => {
    const { published, temporary } = await stored(first)
    return published.length + temporary.length
  }
  const clock = Date.now
  let ahead = 59 * 60_000
  t.intercept(Date, 'now', { value: () => clock() + ahead })
  await leave()
  t.match(await sweep(first.database, first.files), { unfinished: 0, unreferenced: 0 })
  t.equal(await left(), 2)

  ahead = 61 * 60_000
  const timers = t.capture(globalThis, 'setInterval', setInterval)
  await buildTestApp(t, { UPLOADS_DIR: folder, DATABASE_URL })
  await until(async () => await left() === 0, 'both files are removed')
  const hourly = timers().filter(({ args }) => args[1] === 3_600_000)
  for (let round = 0; round < 2; round++) {
    await leave()
    for (const { args: [run] } of hourly) (run as () => void)()
    await until(async () => await left() === 0, 'both files are removed again')
  }
})
