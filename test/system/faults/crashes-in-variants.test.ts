import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import sharp from 'sharp'
import t from 'tap'
import { createLandfallClient, memoryTokens } from '../../../packages/client/src/index.ts'
import { createBucket } from '../../helpers/buckets.ts'
import { childrenOf } from '../../shared/child-processes.ts'
import { CARD, card } from '../../shared/pictures.ts'
import { provide } from '../../shared/programs.ts'
import { claimRedis, createMigratedDatabase } from '../../helpers/servers.ts'
import { startService, temporaryFolder } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// The service is killed while it makes variants.

provide('swift')

const ROUNDS = 2

for (const store of ['folder', 'bucket'] as const) {
  t.test(`${store}: a crash leaves no part of a variant and no child process`, async (t) => {
    const settings = {
      DATABASE_URL: await createMigratedDatabase(t),
      JWT_SECRET: 'a secret of the tests, 32 bytes and more',
      BASE_URL: 'http://landfall.test',
      UPLOADS_DIR: temporaryFolder(t),
      REDIS_URL: await claimRedis(t), // its locks outlive the service
      ...store === 'bucket' ? await createBucket() : {}
    }
    const picture = await card({ width: 2 * CARD.width, height: 2 * CARD.height }).png().toBuffer()
    const tokens = memoryTokens()
    let service = await startService(t, settings)
    const owner = () => createLandfallClient({ baseUrl: service.url, tokens })
    await owner().auth.signUp({ email: 'owner@example.com', password: 'correct horse battery' })
    const paths: string[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const asset = await owner().assets.upload(new Blob([new Uint8Array(picture)]))
      const own = asset.variants.slice(0, 4).map(({ url }) => new URL(url).pathname)
      paths.push(...own)
      const asked = Promise.allSettled(own.map(async (path) => await fetch(service.url + path)))
      await sleep(round * 200)
      const children = childrenOf(service.child.pid as number)
      service.child.kill('SIGKILL') // only the service, not its child process
      await asked
      await until(() => children.every((pid) => !existsSync(`/proc/${pid}`)), 'the child process has ended')
      service = await startService(t, settings)
    }
    for (const path of paths) {
      const { status, headers, bytes } = await until(async () => {
        const response = await fetch(service.url + path)
        const bytes = Buffer.from(await response.arrayBuffer())
        return response.status === 200 && { status: response.status, headers: response.headers, bytes }
      }, path)
      t.equal(status, 200)
      t.equal(Number(headers.get('content-length')), bytes.length)
      const { info } = await sharp(bytes).raw().toBuffer({ resolveWithObject: true })
      t.ok(path.includes(`/w${info.width}.`), 'it can be decoded')
    }
  })
}
