import { stat } from 'node:fs/promises'
import type { FastifyBaseLogger } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../../../config.ts'
import { DiskStore } from './disk-store.ts'
import type { FileStore } from './file-store.ts'
import type { S3Settings } from './s3-client.ts'

declare module 'fastify' {
  interface FastifyInstance {
    files: FileStore
  }
}

const OTHERS_CAN_LIST = 0o004

export type StorePlace = Pick<Config, 'UPLOADS_DIR'> & Partial<S3Settings>

/** Creates the store that the settings select. Call its `prepare` before its first use. */
export async function openFileStore (
  config: StorePlace,
  log: Pick<FastifyBaseLogger, 'error'>
): Promise<FileStore> {
  if (config.UPLOADS_URL === undefined) return new DiskStore(config.UPLOADS_DIR, log)
  // Loading the SDK takes 0.3 s and 20 MB.
  const { S3Store } = await import('./s3-store.ts')
  return new S3Store({ ...config, UPLOADS_URL: config.UPLOADS_URL }, log)
}

export default fp(async (app) => {
  const files = await openFileStore(app.config, app.log)
  app.addHook('onClose', async () => files.close())
  await files.prepare()
  if (files instanceof DiskStore && ((await stat(files.folder)).mode & OTHERS_CAN_LIST) !== 0) {
    app.log.warn(`Other users can list ${files.place}. Set its mode to 0700, or to 0711 for nginx`)
  }
  app.decorate('files', files)
}, { name: 'file-store' })
