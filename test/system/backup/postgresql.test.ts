import { existsSync, readFileSync, statSync } from 'node:fs'
import { appendFile, cp, readdir, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { delimiter, dirname, join } from 'node:path'
import sharp from 'sharp'
import t, { type Test } from 'tap'
import { provide } from '../../shared/programs.ts'
import { createDatabase, query } from '../../helpers/servers.ts'
import { PROJECT, runService, startService, temporaryFolder, type Service } from '../../helpers/service.ts'
import { asJpeg, card } from '../../shared/pictures.ts'
import type { Asset } from '../../helpers/variants.ts'
import { Owner } from '../../helpers/client.ts'
import { backUpBetweenSteps, Belongings, cli, command, fails, keyOf, runBlock, signalAt, Storm,
  succeed } from '../../helpers/backup.ts'

interface Settings extends Record<string, string> {
  DATABASE_URL: string
  UPLOADS_DIR: string
}

// The client programs have to be of the same version as the server of the tests.
process.env.PATH = `${provide('postgres')}${delimiter}${process.env.PATH}`

async function settings (t: Test, schema?: string): Promise<Settings> {
  const url = new URL(await createDatabase(t))
  if (schema !== undefined) url.searchParams.set('schema', schema)
  return {
    DATABASE_URL: url.href,
    JWT_SECRET: 'x'.repeat(32),
    UPLOADS_DIR: join(temporaryFolder(t), 'uploads'),
    RATE_LIMIT_PUBLIC: '1000000'
  }
}
const place = (env: Settings) => ({
  DATABASE_URL: env.DATABASE_URL,
  UPLOADS_DIR: env.UPLOADS_DIR,
  DATA_DIR: '/nowhere'
})

const folder = temporaryFolder(t)
const copy = join(folder, 'copy')
let env: Settings
let service: Service
let belongings: Belongings

t.before(async () => {
  env = await settings(t)
  service = await startService(t, env)
  belongings = await Belongings.create(service.url)
})

t.test('a service starts from a backup during uploads and deletions', async (t) => {
  const storm = new Storm(t, belongings.owner, service.url)
  const made = await succeed(t, env, 'backup', copy)
  t.notMatch(made, new URL(env.DATABASE_URL).password)
  t.equal(statSync(join(copy, 'database.dump')).mode & 0o777, 0o600)
  for (const args of [[], [copy]]) {
    const output = await succeed(t, env, 'verify', ...args)
    t.match(output, /Every asset has a file, and every file has an asset: \d+ assets/)
  }
  await storm.stop()
  t.strictSame([...storm.statuses].sort(), ['deletion 204', 'upload 201'])

  await fails(
    t,
    { ...env, UPLOADS_DIR: join(folder, 'new') },
    ['restore', copy],
    /PostgreSQL at \S+ is not empty/
  )
  const other = await settings(t)
  await fails(
    t,
    { ...other, UPLOADS_DIR: env.UPLOADS_DIR },
    ['restore', copy],
    /UPLOADS_DIR \S+ is not empty/
  )
  await fails(
    t,
    { DATA_DIR: join(folder, 'data'), UPLOADS_DIR: join(folder, 'new') },
    ['restore', copy],
    /comes from PostgreSQL/
  )
  await succeed(t, other, 'restore', copy)
  await belongings.check(t, (await startService(t, other)).url)
  await succeed(t, other, 'verify')
})

t.test('a backup is complete although assets are uploaded and deleted between its steps', async (t) => {
  const directory = join(folder, 'steps')
  await backUpBetweenSteps(t, place(env), directory, belongings.owner, service.url)
  await succeed(t, env, 'verify', directory)
  const other = await settings(t)
  await succeed(t, other, 'restore', directory)
})

// Replaces `docker`: runs the commands of docs/backup.md on this machine, on the database and the uploads of
// the test.
const DOCKER = `#!/bin/bash
set -eu
[ "$1" = compose ] && shift
case "$1 $2 $3" in
  'up --detach --wait') exit ;;
  'exec -T landfall-1' | 'exec -T postgres') command=() && shift 3 ;;
  'run --rm -T') [ "$4 $5 $7" = '--no-deps --entrypoint migrate' ] && command=("$6") && shift 7 ;;
esac
while [ $# -gt 0 ]; do
  case "$1" in
    -U) [ "$2" = landfall ] && shift ;;
    landfall) command+=("$DATABASE_URL") ;;
    /app/uploads) mkdir -p "$UPLOADS_DIR" && command+=("$UPLOADS_DIR") ;;
    *) command+=("$1") ;;
  esac
  shift
done
exec "\${command[@]}"
`

const copyAsTold = (heading: string) => async (t: Test): Promise<void> => {
  const text = readFileSync(join(PROJECT, 'docs/backup.md'), 'utf8').split(`\n## ${heading}\n`)[1]
    ?.split('\n## ')[0] as string
  const [backup, restore, ...rest] = [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block]) =>
    block as string
  )
  t.same(rest, [])
  const shims = temporaryFolder(t)
  await writeFile(join(shims, 'docker'), DOCKER, { mode: 0o755 })
  const PATH = `${shims}${delimiter}${process.env.PATH}`
  const paste = async (block: string, env: Settings) =>
    await runBlock(block, { PATH, ...env, BACKUP: join(folder, heading) })
  // This asset is uploaded before the dump and deleted after it, so no copy of the files has it.
  const curl = `curl -sf -H 'Authorization: Bearer ${belongings.owner.accessToken}'`
  await writeFile(
    join(shims, 'pg_dump'),
    `#!/bin/sh
set -e
id=$(echo x | ${curl} -F 'asset[file]=@-;filename=x' ${service.url}/assets | sed 's/.*"id":"\\([^"]*\\)".*/\\1/')
PATH='${process.env.PATH}' pg_dump "$@"
${curl} -X DELETE ${service.url}/assets/$id
`,
    { mode: 0o755 }
  )
  const storm = new Storm(t, belongings.owner, service.url)
  const made = await paste(backup as string, env)
  await storm.stop()
  t.equal(made.code, 0, made.output)
  const other = await settings(t)
  const { code, output } = await paste(restore as string, other)
  t.equal(code, 0, output)
  t.match(output, /Every asset has a file, and every file has an asset/)
}
t.test(
  'the manual commands of docs/backup.md make a complete copy',
  copyAsTold('By hand')
)
t.test(
  'the Docker Compose commands of docs/backup.md make a complete copy',
  copyAsTold('With Docker Compose')
)

t.test("a killed restore isn't accepted as complete", async (t) => {
  const other = await settings(t)
  t.equal((await signalAt('restoring the database', ['SIGKILL'], other, 'restore', copy)).signal, 'SIGKILL')
  await fails(t, other, ['restore', copy], /contains an interrupted restore/)
  await fails(t, other, ['serve'], /A restore into this database was interrupted: empty the database/)
})

t.test('verify finds damaged files, and backup copies them unchanged', async (t) => {
  const damaged = join(temporaryFolder(t), 'damaged')
  await cp(copy, damaged, { recursive: true })
  const uploads = join(damaged, 'uploads')
  const [lost, longer, changed, linked] = (await readdir(uploads)).filter((name) =>
    statSync(join(uploads, name)).size > 10
  ) as [string, string, string, string]
  await rm(join(uploads, lost))
  await appendFile(join(uploads, longer), 'x')
  const bytes = readFileSync(join(uploads, changed))
  bytes[5] = (bytes[5] as number) ^ 1
  await writeFile(join(uploads, changed), bytes)
  await rename(join(uploads, linked), join(damaged, 'elsewhere'))
  await symlink('../elsewhere', join(uploads, linked))
  const stray = `${'0'.repeat(21)}A.png`
  await writeFile(join(uploads, stray), 'x')

  const expected = [
    `  ${lost} is missing`,
    `  ${longer} has \\d+ bytes instead of \\d+`,
    `  ${changed} has the checksum \\w{64} instead of \\w{64}`,
    `  ${linked} is missing`,
    `  ${stray} has no row in the database`
  ]
  const found = await command(t, env, 'verify', damaged)
  t.equal(found.code, 1)
  t.match(found.output, /do not match: 5 problems\n/)
  for (const line of expected) t.match(found.output, new RegExp(`^${line}$`, 'm'))
  const unread = await runService(t, env, [
    'bash',
    '-c',
    'set -o pipefail; "$0" "$@" 2>&1 | true',
    ...cli('verify', damaged)
  ])
  t.equal(unread.code, 1, 'the exit code is right although nobody reads the output')

  const other = await settings(t)
  const restored = await command(t, other, 'restore', damaged)
  t.equal(restored.code, 1)
  t.match(restored.output, /^Restored the database and \d+ assets \(.*\), 2 of them without their file\.$/m)
  const checked = await command(t, other, 'verify')
  t.equal(checked.code, 1)
  t.match(checked.output, /do not match: 4 problems\n/)
  t.match(
    checked.output,
    /^1 file of uploads in progress or interrupted/m,
    'a young file without a row may belong to an upload in progress'
  )

  await writeFile(join(other.UPLOADS_DIR, '.database'), 'another database')
  const foreign = await command(t, other, 'verify')
  t.match(foreign.output, /belongs to another database: files without a row in this one are not removed/)
  t.match(foreign.output, new RegExp(`^  ${stray} has no row in the database$`, 'm'), 'however young it is')
  t.notMatch(foreign.output, /the service removes leftovers/)
  await rm(join(other.UPLOADS_DIR, '.database'))

  const made = join(folder, 'damaged')
  const again = await command(t, other, 'backup', made)
  t.equal(again.code, 1)
  t.match(
    again.output,
    /The backup is complete, but files of the service are missing or damaged: 4 problems\n/
  )
  t.match((await command(t, other, 'verify', made)).output, /do not match: 4 problems\n/)

  // The database of a backup is untrusted input.
  await query(
    other.DATABASE_URL,
    "UPDATE assets SET storage_key = '../../../etc/passwd' WHERE storage_key = (SELECT min(storage_key) " +
      'FROM assets)'
  )
  t.match(
    (await command(t, other, 'verify')).output,
    /^ {2}\.\.\/\.\.\/\.\.\/etc\/passwd is in the database, but is not a name that the service creates$/m
  )
  await query(other.DATABASE_URL, 'DELETE FROM assets')
  t.match(await command(t, { ...other, UPLOADS_DIR: join(folder, 'nothing') }, 'verify'), {
    code: 0,
    output: /0 assets/
  })
})

t.test('a command without its tools or its database fails with one line', async (t) => {
  const bare = { ...env, PATH: dirname(process.execPath) }
  if (!existsSync(join(bare.PATH, 'pg_dump'))) {
    const { code, output } = await command(t, bare, 'backup', join(folder, 'bare'))
    t.equal(code, 1)
    t.match(output, /^The backup failed: pg_dump was not found: install .*docs\/backup\.md explains$/m)
    t.notOk(existsSync(join(folder, 'bare.partial')))
  }
  const wrong = new URL(env.DATABASE_URL)
  wrong.password = 'hunter2'
  for (const args of [['verify'], ['restore', copy]]) {
    const { code, output } = await command(t, {
      ...env,
      DATABASE_URL: wrong.href,
      UPLOADS_DIR: join(folder, 'none')
    }, ...args)
    t.equal(code, 1)
    t.match(output, /failed: PostgreSQL at \S+ can't be (read|used): password authentication failed/)
    t.notMatch(output, /hunter2|\n\s+at /)
  }
  await fails(
    t,
    { ...env, DATABASE_URL: wrong.href },
    ['backup', join(folder, 'wrong')],
    /pg_dump failed: .*authentication failed/
  )
  t.notOk(existsSync(join(folder, 'wrong.partial')))
})

t.test('a schema is backed up without variants of pictures, which are made again after a restore', async (t) => {
  const own = await settings(t, 'pages')
  const { url } = await startService(t, own)
  const all = await Belongings.create(url)
  const { owner } = all
  const { variants } = JSON.parse((await owner.upload(url, await asJpeg(card()), 'a.jpg')).text) as Asset
  const read = async (base: string): Promise<Buffer> => {
    const response = await fetch(base + new URL(variants[0]?.url as string).pathname)
    t.equal(response.status, 200)
    return Buffer.from(await response.arrayBuffer())
  }
  const made = await read(url)
  const directory = join(folder, 'variants')
  await succeed(t, own, 'backup', directory)
  t.equal((await readdir(join(directory, 'uploads'))).length, 4, 'only the originals')
  await fails(t, await settings(t), ['restore', directory], /schema pages, but DATABASE_URL names public/)
  const other = await settings(t, 'pages')
  await succeed(t, other, 'restore', directory)
  const { url: otherUrl } = await startService(t, other)
  const samples = async (variant: Buffer) => await sharp(variant).raw().toBuffer()
  t.ok((await samples(await read(otherUrl))).equals(await samples(made)), 'it has the same pixels')
  await succeed(t, other, 'verify')
  await all.check(t, otherUrl)
})

t.test('a restore misses no files of an account that is being deleted, and lists schedules that have passed', async (t) => {
  const own = await settings(t)
  const service = await startService(t, own)
  const { url } = service
  const owner = await Owner.signUp(url)
  const key = async () => keyOf((await owner.store(url, Buffer.from('x'))).url)
  const [gone, left] = [await key(), await key()]
  const { public_id: publicId } = await owner.createPage(url, '[]')
  await service.end('SIGTERM') // it would finish the deletion, and carry out the schedule
  await query(
    own.DATABASE_URL,
    `INSERT INTO landing_page_schedules (page_id, user_id, publish_at, unpublish_at, author_type, author_name)
    SELECT id, user_id, '2026-01-31T08:00Z', now() + interval '1 day', 'user', 'x' FROM landing_pages`
  )
  await query(
    own.DATABASE_URL,
    `WITH begun AS (INSERT INTO account_deletions (user_id) SELECT id FROM users)
    UPDATE users SET email = 'deleted account ' || id, password_hash = ''`
  )
  await rm(join(own.UPLOADS_DIR, gone))
  const directory = join(folder, 'deletion')
  for (const args of [['verify'], ['backup', directory]] as const) await succeed(t, own, ...args)
  const other = await settings(t)
  const output = await succeed(t, other, 'restore', directory)
  t.notMatch(output, 'without their file')
  const due = `  ${publicId} is published, due 2026-01-31T08:00:00.000Z\n`
  t.ok(output.endsWith(`carried out when the service starts:\n${due}`), output)
  await succeed(t, other, 'verify')
  await rm(join(other.UPLOADS_DIR, left))
  await query(other.DATABASE_URL, "UPDATE users SET email = 'owner@example.com'")
  t.match(
    await command(t, other, 'verify'),
    { code: 1, output: /: 1 problem\n/ },
    'other accounts need theirs'
  )
})
