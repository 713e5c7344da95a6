import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { chown, cp, mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { restoreBackup } from '../../../src/cli/backup/restore.ts'
import { Readers, statuses } from '../../helpers/readers.ts'
import { PROJECT, QUICK, runService, startService, temporaryFolder,
  type Service } from '../../helpers/service.ts'
import { backUpBetweenSteps, Belongings, cli, command, fails, signalAt, Storm, upload,
  succeed } from '../../helpers/backup.ts'

interface Settings extends Record<string, string> {
  DATA_DIR: string
  UPLOADS_DIR: string
}
const settingsIn = (folder: string): Settings => ({
  DATA_DIR: join(folder, 'data'),
  UPLOADS_DIR: join(folder, 'uploads'),
  RATE_LIMIT_PUBLIC: '1000000'
})
const place = (settings: Settings) => ({ DATABASE_URL: undefined, ...settings })

// All tests share one service. Tests that damage data use copies of this backup.
const folder = temporaryFolder(t)
const env = settingsIn(folder)
const copy = join(folder, 'copy')
/** The backup of the second test, which leaves out assets that were deleted during the backup. */
const steps = join(folder, 'steps')
let service: Service
let belongings: Belongings

t.before(async () => {
  service = await startService(t, env)
  belongings = await Belongings.create(service.url)
})

t.test('a backup during uploads and deletions is complete', async (t) => {
  const page = await belongings.owner.createPage(service.url, '{}')
  const readers = new Readers(t, { urls: [service.url], publicIds: [page.public_id] })
  const storm = new Storm(t, belongings.owner, service.url)
  const reads = await readers.during(async () => {
    const output = await succeed(t, env, 'backup', copy)
    t.match(output, /^copying the uploads …\ncopying the database …\n/)
    t.match(output, / assets \([\d.]+ [KM]iB\) to /)
    await succeed(t, env, 'verify')
  })
  await storm.stop()
  t.strictSame(Object.keys(statuses(reads)), ['200'])
  t.strictSame([...storm.statuses].sort(), ['deletion 204', 'upload 201'])

  const output = await succeed(t, env, 'verify', copy)
  t.match(output, /Every asset has a file, and every file has an asset: \d+ assets/)
  t.notOk(existsSync(`${copy}.partial`))
  t.equal(statSync(copy).mode & 0o777, 0o700)
  t.equal(statSync(join(copy, 'data', 'jwt-secret')).mode & 0o777, 0o600)
  t.equal(
    readFileSync(join(copy, 'data', 'jwt-secret'), 'utf8'),
    readFileSync(join(env.DATA_DIR, 'jwt-secret'), 'utf8')
  )
})

t.test('a backup is complete although assets are uploaded and deleted between its steps', async (t) => {
  await backUpBetweenSteps(t, place(env), steps, belongings.owner, service.url)
})

t.test('a killed backup is not accepted as complete', async (t) => {
  const directory = join(folder, 'killed')
  for (const step of ['copying the database', 'writing to the disk']) {
    t.equal((await signalAt(step, ['SIGKILL'], env, 'backup', directory)).signal, 'SIGKILL', step)
    t.notOk(existsSync(directory), step)
    await t.rejects(restoreBackup(place(settingsIn(join(folder, 'nowhere'))), `${directory}.partial`), {
      message: /killed\.partial is not a complete backup: it has no backup\.json/
    })
    await upload(belongings.owner, service.url, Buffer.from(step))
    if (step === 'writing to the disk') {
      t.match(
        (await command(t, env, 'backup', directory)).output,
        /killed\.partial exists: another backup is running, or one was interrupted/
      )
    }
    await rm(`${directory}.partial`, { recursive: true })
  }
})

t.test('a service starts from a restored backup, and restore never overwrites data', async (t) => {
  const other = settingsIn(temporaryFolder(t))
  const made = await command(t, other, 'restore', steps)
  t.equal(made.code, 0, `a backup of rows whose files were deleted: ${made.output}`)
  const again = await command(t, other, 'restore', steps)
  t.equal(again.code, 1)
  t.match(again.output, /^The restore failed: DATA_DIR \S+ is not empty \(jwt-secret, postgres\)[^\n]*\n$/m)

  const restored = await startService(t, other)
  await belongings.check(t, restored.url)
  const running = await command(t, other, 'restore', steps)
  t.equal(running.code, 1)
  t.match(running.output, /DATA_DIR \S+ is in use by another process \(\d+ on .*\): stop it/)

  const half = { ...settingsIn(temporaryFolder(t)), UPLOADS_DIR: other.UPLOADS_DIR }
  await fails(t, half, ['restore', steps], /UPLOADS_DIR \S+ is not empty/)
  t.notOk(existsSync(half.DATA_DIR), 'nothing is left')
  await fails(
    t,
    { ...half, DATABASE_URL: 'postgresql://localhost/x' },
    ['restore', steps],
    /holds an embedded database/
  )

  t.equal(await restored.end('SIGTERM'), 0)
  const { code, output } = await command(t, other, 'backup', `${other.DATA_DIR}-copy`)
  t.equal(code, 0, `verify works without a running service: ${output}`)
})

t.test("the service doesn't start after a killed restore", async (t) => {
  const other = settingsIn(temporaryFolder(t))
  const killed = await signalAt('opening the database', ['SIGKILL'], other, 'restore', steps)
  t.equal(killed.signal, 'SIGKILL')
  const told = {
    code: 1,
    output: /DATA_DIR \S+ contains an interrupted restore: empty it and UPLOADS_DIR, and restore again/
  }
  t.match(await runService(t, { ...other, PORT: '0' }), told)
  for (const args of [['restore', steps], ['verify'], ['backup', join(folder, 'of-half')]]) {
    t.match(await command(t, other, ...args), told)
  }
})

t.test('after Ctrl-C, backup and restore remove what they wrote', async (t) => {
  const other = settingsIn(temporaryFolder(t))
  const stops = [['copying the database', env, 'backup', join(folder, 'stopped')], [
    'copying the uploads',
    other,
    'restore',
    steps
  ]] as const
  for (const [step, settings, ...args] of stops) {
    // The terminal signals the whole process group, and npm forwards the signal once more.
    const { code, output } = await signalAt(step, Array(3).fill('SIGINT'), settings, ...args)
    t.equal(code, 1, args[0])
    t.match(output, /failed: it was stopped by SIGINT\n$/)
  }
  t.same((await readdir(folder)).filter((name) => name.startsWith('stopped')), [])
  for (const path of Object.values(other).slice(0, 2)) t.notOk(existsSync(path), path)
})

t.test('restore refuses a damaged database before it writes anything', async (t) => {
  const other = settingsIn(temporaryFolder(t))
  const damaged = join(folder, 'damaged')
  const largest = readdirSync(join(steps, 'data/postgres/base/5')).map((name) =>
    `data/postgres/base/5/${name}`
  ).sort((a, b) => statSync(join(steps, b)).size - statSync(join(steps, a)).size)[0] as string
  await cp(steps, damaged, { recursive: true })
  const lost = ['data/postgres/global/pg_control', 'data/jwt-secret']
  for (const path of lost) await rm(join(damaged, path))
  const bytes = readFileSync(join(damaged, largest))
  bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 1
  await writeFile(join(damaged, largest), bytes)
  const checked = await command(t, other, 'verify', damaged)
  t.equal(checked.code, 1)
  t.match(checked.output, 'The copy of the database is damaged and cannot be restored: 3 problems\n')
  for (const line of [`${largest} has the checksum`, ...lost.map((path) => `${path} is missing`)]) {
    t.match(checked.output, `\n  ${line}`)
  }
  await fails(
    t,
    other,
    ['restore', damaged],
    /damaged is damaged \(3 of the files of its database, such as \S+\)/
  )
  t.notOk(existsSync(other.DATA_DIR))
  await writeFile(join(damaged, 'backup.json'), readFileSync(join(damaged, 'backup.json')).subarray(0, 60))
  await fails(
    t,
    other,
    ['verify', damaged],
    /damaged is not a complete backup: its backup\.json is damaged\n$/
  )
})

t.test('a backup inside UPLOADS_DIR or DATA_DIR is refused', async (t) => {
  for (const path of [env.UPLOADS_DIR, env.DATA_DIR]) {
    await fails(
      t,
      env,
      ['backup', join(path, 'new', 'copy')],
      /copy is inside (UPLOADS|DATA)_DIR: name a folder outside of it\n$/
    )
    t.notOk(existsSync(join(path, 'new')))
  }
})

t.test('a failed backup prints the reason and leaves nothing behind', async (t) => {
  const folder = temporaryFolder(t)
  await fails(t, env, ['backup', copy], /^The backup failed: \S+copy exists: name a new folder\n$/)
  await fails(
    t,
    settingsIn(folder),
    ['backup', join(folder, 'a')],
    /^.*\n.*\nThe backup failed: DATA_DIR \S+ holds no database: .*\n$/
  )

  // A limit on the size of files simulates a full disk without special permissions.
  const small = join(folder, 'small')
  await mkdir(small)
  const onSmallDisk = async (settings: Settings, ...args: string[]) =>
    await runService(t, { ...settings, TMPDIR: folder }, [
      'bash',
      '-c',
      'ulimit -f 2048; exec "$@"',
      'bash',
      ...cli(...args)
    ])
  t.match(await onSmallDisk(env, 'backup', join(small, 'copy')), {
    code: 1,
    output: /The backup failed: .*EFBIG/
  })
  t.same(await readdir(small), [])
  t.match(await onSmallDisk(settingsIn(small), 'restore', steps), {
    code: 1,
    output: /The restore failed: .*EFBIG/
  })
  t.same(await readdir(small), [])

  const unreadable = { ...settingsIn(folder), UPLOADS_DIR: join(folder, 'unreadable') }
  const name = `${'0'.repeat(21)}A.png`
  await mkdir(unreadable.UPLOADS_DIR)
  await writeFile(join(unreadable.UPLOADS_DIR, name), 'x', { mode: 0 })
  // Root can read every file, so another user makes the backup.
  const somebody = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {}
  if (somebody.uid !== undefined) await chown(folder, somebody.uid, somebody.gid)
  const { status, stderr } = spawnSync(process.execPath, cli('backup', join(folder, 'b')).slice(1), {
    cwd: PROJECT,
    env: { PATH: process.env.PATH, NODE_OPTIONS: QUICK, ...unreadable },
    encoding: 'utf8',
    ...somebody
  })
  t.equal(status, 1)
  t.match(stderr, new RegExp(`^The backup failed: EACCES.*${name}`, 'm'))
  t.same((await readdir(folder)).filter((entry) => entry.startsWith('b')), [])
})
