import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { CreateMultipartUploadCommand, DeleteObjectCommand, GetObjectCommand, ListMultipartUploadsCommand,
  ListObjectsV2Command, PutObjectCommand, UploadPartCommand, type ListObjectsV2CommandOutput,
  type S3Client } from '@aws-sdk/client-s3'
import type { FastifyInstance } from 'fastify'
import t, { type Test } from 'tap'
import { OWNER, VARIANTS_FOLDER } from '../../src/modules/assets/storage/storage-key.ts'
import { buildTestApp } from './app.ts'
import { createBucket, s3Client } from './buckets.ts'

// Tests that apply to both stores. test/integration/assets runs them on folders, and
// test/system/assets/buckets.test.ts on buckets.

export type Build = (t: Test, settings?: Record<string, string>) => Promise<FastifyInstance>

type Store = 'folder' | 'bucket'

/** Functions that build the service on an empty store. */
const BUILDS: Record<Store, Build> = {
  folder: async (t, settings = {}) => await buildTestApp(t, settings),
  bucket: async (t, settings = {}) => await buildTestApp(t, { ...await createBucket(), ...settings })
}

/** Defines a test for the store of this process: folders, or buckets with TEST_STORE=bucket. */
export function onEachStore (
  name: string,
  action: (t: Test, build: Build, store: Store) => Promise<void>
): void {
  const store = process.env.TEST_STORE === 'bucket' ? 'bucket' : 'folder'
  t.test(`${store}: ${name}`, async (t) => await action(t, BUILDS[store], store))
}

/** Direct access to the store, without the service. */
export interface Backstage {
  /** Returns the keys of published files, and the paths of variants. */
  published(): Promise<string[]>
  /** Returns unfinished uploads. In a bucket, files smaller than a part have none. */
  temporary(): Promise<string[]>
  bytes(key: string): Promise<Buffer>
  put(key: string, content: string): Promise<void>
  /** Removes `.database`, which names the database of the files. */
  forgetOwner(): Promise<void>
  /** Creates the remains of an interrupted upload. */
  leaveUnfinished(key: string): Promise<void>
}

export function backstage ({ config }: FastifyInstance): Backstage {
  const { UPLOADS_URL, AWS_ENDPOINT_URL_S3 = '', AWS_ACCESS_KEY_ID = '', AWS_SECRET_ACCESS_KEY = '' } = config
  if (UPLOADS_URL === undefined) return folder(config.UPLOADS_DIR)
  const { hostname, pathname } = new URL(UPLOADS_URL)
  return bucket(
    s3Client({ AWS_ENDPOINT_URL_S3, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY }),
    hostname,
    pathname === '' ? '' : `${pathname.slice(1)}/`
  )
}

/** Returns published files and unfinished uploads. */
export async function stored (app: FastifyInstance): Promise<{ published: string[], temporary: string[] }> {
  const look = backstage(app)
  return { published: await look.published(), temporary: await look.temporary() }
}

function folder (path: string): Backstage {
  return {
    async published () {
      const files = (await readdir(path)).filter((name) => !['.tmp', OWNER, VARIANTS_FOLDER].includes(name))
      const variants = await readdir(join(path, VARIANTS_FOLDER), { recursive: true }).catch(() => [])
      return [
        ...files,
        ...variants.filter((name) => name.includes('/')).map((name) => `${VARIANTS_FOLDER}/${name}`)
      ]
    },
    temporary: async () => await readdir(join(path, '.tmp')).catch(() => []),
    bytes: async (key) => await readFile(join(path, key)),
    async put (key, content) {
      await mkdir(dirname(join(path, key)), { recursive: true })
      await writeFile(join(path, key), content)
    },
    forgetOwner: async () => await rm(join(path, OWNER)),
    leaveUnfinished: async (key) => await writeFile(join(path, '.tmp', key.slice(0, 22)), 'x')
  }
}

function bucket (client: S3Client, Bucket: string, Prefix: string): Backstage {
  return {
    async published () {
      const keys: string[] = []
      for (let ContinuationToken: string | undefined;;) {
        const page: ListObjectsV2CommandOutput = await client
          .send(new ListObjectsV2Command({ Bucket, ContinuationToken }))
        for (const { Key = '' } of page.Contents ?? []) {
          if (Key !== Prefix + OWNER) {
            keys.push(Key.startsWith(Prefix) ? Key.slice(Prefix.length) : `outside: ${Key}`)
          }
        }
        ContinuationToken = page.NextContinuationToken
        if (page.IsTruncated !== true) return keys
      }
    },
    temporary: async () =>
      ((await client.send(new ListMultipartUploadsCommand({ Bucket }))).Uploads ?? []).map(({ Key = '' }) =>
        Key
      ), // the first page is enough
    bytes: async (key) =>
      Buffer
        .from(await (await client.send(new GetObjectCommand({ Bucket, Key: Prefix + key }))).Body
          ?.transformToByteArray() ?? []),
    put: async (key, Body) => {
      await client.send(new PutObjectCommand({ Bucket, Key: Prefix + key, Body }))
    },
    forgetOwner: async () => {
      await client.send(new DeleteObjectCommand({ Bucket, Key: Prefix + OWNER }))
    },
    async leaveUnfinished (key) {
      const { UploadId } = await client.send(new CreateMultipartUploadCommand({ Bucket, Key: Prefix + key }))
      await client
        .send(new UploadPartCommand({ Bucket, Key: Prefix + key, UploadId, PartNumber: 1, Body: 'x' }))
    }
  }
}
