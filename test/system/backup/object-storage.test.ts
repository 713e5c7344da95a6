import { readdirSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { DeleteObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3'
import t from 'tap'
import { createBucket, s3Client } from '../../helpers/buckets.ts'
import { provide } from '../../shared/programs.ts'
import { createDatabase } from '../../helpers/servers.ts'
import { startService, temporaryFolder } from '../../helpers/service.ts'
import { backUpBetweenSteps, Belongings, command, fails, keyOf, succeed } from '../../helpers/backup.ts'

// Backup, restore and verify with uploads in a bucket.

provide('swift')
process.env.PATH = `${provide('postgres')}${delimiter}${process.env.PATH}`

const settings = async (
  uploads: Record<string, string>
): Promise<Record<string, string> & { DATABASE_URL: string, UPLOADS_DIR: string }> => ({
  DATABASE_URL: await createDatabase(t),
  JWT_SECRET: 'x'.repeat(32),
  UPLOADS_DIR: '/nowhere',
  RATE_LIMIT_PUBLIC: '1000000',
  ...uploads
})

const bucket = await createBucket('')
const env = await settings(bucket)
const service = await startService(t, env)
const belongings = await Belongings.create(service.url)

t.test('a backup of a bucket can be restored into another bucket and into a folder', async (t) => {
  const copy = join(temporaryFolder(t), 'copy')
  await backUpBetweenSteps(
    t,
    { ...env, DATA_DIR: '/nowhere', S3_FORCE_PATH_STYLE: true },
    copy,
    belongings.owner,
    service.url
  )
  for (const args of [[], [copy]]) {
    t.match(await command(t, env, 'verify', ...args), {
      code: 0,
      output: /Every asset has a file, and every file has an asset/
    })
  }

  const second = await createBucket()
  await fails(
    t,
    { ...env, DATABASE_URL: await createDatabase(t) },
    ['restore', copy],
    /UPLOADS_URL s3:\/\/\S+ is not empty/
  )
  const inBucket = await settings(second)
  await succeed(t, inBucket, 'restore', copy)
  const inFolder = await settings({ UPLOADS_DIR: join(temporaryFolder(t), 'uploads') })
  await succeed(t, inFolder, 'restore', copy)
  for (const other of [inBucket, inFolder]) await succeed(t, other, 'verify')
  await belongings.check(t, (await startService(t, inBucket)).url)
  await belongings.checkUploads(t, (await startService(t, inFolder)).url)
})

t.test('verify finds damaged and missing objects, and a denied bucket is reported in one line', async (t) => {
  const files = await Promise.all(['lost', 'longer', 'changed'].map(async (text) => {
    const { text: record } = await belongings.owner.upload(service.url, Buffer.from(text), text)
    return keyOf((JSON.parse(record) as { url: string }).url)
  }))
  const [lost, longer, changed] = files as [string, string, string]
  const client = s3Client(bucket)
  const Bucket = new URL(bucket.UPLOADS_URL).hostname
  await client.send(new DeleteObjectCommand({ Bucket, Key: lost }))
  await client.send(new PutObjectCommand({ Bucket, Key: longer, Body: 'longer!' }))
  await client.send(new PutObjectCommand({ Bucket, Key: changed, Body: 'Changed' }))
  await client.send(new PutObjectCommand({ Bucket, Key: `${'0'.repeat(21)}A.png`, Body: 'a young one' }))
  const { code, output } = await command(t, env, 'verify')
  t.equal(code, 1)
  for (
    const line of [
      `  ${lost} is missing`,
      `  ${longer} has 7 bytes instead of 6`,
      `  ${changed} has the checksum \\w{64} instead of \\w{64}`
    ]
  ) t.match(output, new RegExp(`^${line}$`, 'm'))
  t.match(output, /do not match: 3 problems\n/)
  t.match(output, /^1 file of uploads in progress or interrupted/m)

  const folder = temporaryFolder(t)
  await writeFile(join(folder, 'file'), '')
  const denied = await command(
    t,
    { ...env, AWS_SECRET_ACCESS_KEY: 'not the secret' },
    'backup',
    join(folder, 'copy')
  )
  t.match(denied, {
    code: 1,
    output:
      /^The backup failed: UPLOADS_URL s3:\/\/\S+ can't be used: access is denied: check AWS_ACCESS_KEY_ID.*$/m
  })
  t.same(readdirSync(folder), ['file'])
  await rm(folder, { recursive: true })
})
