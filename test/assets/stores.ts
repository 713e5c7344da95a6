import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CreateMultipartUploadCommand, DeleteObjectCommand, GetObjectCommand, ListMultipartUploadsCommand, ListObjectsV2Command, PutObjectCommand, UploadPartCommand, type ListObjectsV2CommandOutput, type S3Client } from '@aws-sdk/client-s3'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { OWNER } from '../../src/assets/storage-key.ts'
import { buildTestApp, testSettings } from '../helpers/app.ts'
import { createBucket, s3Client } from '../helpers/buckets.ts'

// The same tests for files in a folder and for files in a bucket.

export type Build = (t: Test, settings?: Record<string, string>) => Promise<FastifyInstance>

export interface Store {
  readonly name: 'folder' | 'bucket'
  /** The service on an empty one. */
  readonly build: Build
}

const STORES: readonly Store[] = [
  { name: 'folder', build: async (t, settings = {}) => await buildTestApp(t, { settings }) },
  { name: 'bucket', build: async (t, settings = {}) => await buildTestApp(t, { settings: { ...await testSettings(t), ...await createBucket(), ...settings } }) }
]

/** Defines a test for each of the stores. */
export function onEachStore (name: string, action: (t: Test, build: Build, store: Store['name']) => Promise<void>): void {
  for (const store of STORES) t.test(`${store.name}: ${name}`, async (t) => await action(t, store.build, store.name))
}

/** What is beside the service: to plant what it has not made, and to find what it has. */
export interface Backstage {
  /** Keys of the published files. */
  published (): Promise<string[]>
  /** What is there of unfinished uploads. A bucket has none of files smaller than a part. */
  temporary (): Promise<string[]>
  bytes (key: string): Promise<Buffer>
  put (key: string, content: string): Promise<void>
  /** Takes away what says which database the files belong to. */
  forgetOwner (): Promise<void>
  /** Leaves what a crash in an upload leaves. */
  leaveUnfinished (key: string): Promise<void>
}

export function backstage ({ config }: FastifyInstance): Backstage {
  const { UPLOADS_URL, AWS_ENDPOINT_URL_S3 = '', AWS_ACCESS_KEY_ID = '', AWS_SECRET_ACCESS_KEY = '' } = config
  if (UPLOADS_URL === undefined) return folder(config.UPLOADS_DIR)
  const { hostname, pathname } = new URL(UPLOADS_URL)
  return bucket(s3Client({ AWS_ENDPOINT_URL_S3, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY }), hostname, pathname === '' ? '' : `${pathname.slice(1)}/`)
}

/** Every file that is stored, and what is there of uploads under way. */
export async function stored (app: FastifyInstance): Promise<{ published: string[], temporary: string[] }> {
  const look = backstage(app)
  return { published: await look.published(), temporary: await look.temporary() }
}

function folder (path: string): Backstage {
  return {
    published: async () => (await readdir(path)).filter((name) => name !== '.tmp' && name !== OWNER),
    temporary: async () => await readdir(join(path, '.tmp')).catch(() => []),
    bytes: async (key) => await readFile(join(path, key)),
    put: async (key, content) => await writeFile(join(path, key), content),
    forgetOwner: async () => await rm(join(path, OWNER)),
    leaveUnfinished: async (key) => await writeFile(join(path, '.tmp', key.slice(0, 22)), 'x')
  }
}

function bucket (client: S3Client, Bucket: string, Prefix: string): Backstage {
  return {
    async published () {
      const keys: string[] = []
      for (let ContinuationToken: string | undefined; ;) {
        const page: ListObjectsV2CommandOutput = await client.send(new ListObjectsV2Command({ Bucket, ContinuationToken }))
        for (const { Key = '' } of page.Contents ?? []) if (Key !== Prefix + OWNER) keys.push(Key.startsWith(Prefix) ? Key.slice(Prefix.length) : `outside: ${Key}`)
        ContinuationToken = page.NextContinuationToken
        if (page.IsTruncated !== true) return keys
      }
    },
    temporary: async () => ((await client.send(new ListMultipartUploadsCommand({ Bucket }))).Uploads ?? []).map(({ Key = '' }) => Key), // its first page will do
    bytes: async (key) => Buffer.from(await (await client.send(new GetObjectCommand({ Bucket, Key: Prefix + key }))).Body?.transformToByteArray() ?? []),
    put: async (key, Body) => { await client.send(new PutObjectCommand({ Bucket, Key: Prefix + key, Body })) },
    forgetOwner: async () => { await client.send(new DeleteObjectCommand({ Bucket, Key: Prefix + OWNER })) },
    async leaveUnfinished (key) {
      const { UploadId } = await client.send(new CreateMultipartUploadCommand({ Bucket, Key: Prefix + key }))
      await client.send(new UploadPartCommand({ Bucket, Key: Prefix + key, UploadId, PartNumber: 1, Body: 'x' }))
    }
  }
}
