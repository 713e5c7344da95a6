import { randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'
import type { Guardian } from '../test/helpers/guardian.ts'
import { copyCluster, createCluster, startPostgres, startRedis } from '../test/helpers/instances.ts'
import { providePrograms } from '../test/helpers/programs.ts'

// The private PostgreSQL and Redis that all contenders share, each server with a database of its own in Redis.

export interface Stores {
  readonly guardian: Guardian
  readonly postgresUrl: string
  readonly postgresPid: number
  readonly redisPid: number
  readonly jwtSecret: string
  /** The URL of a database in Redis that nobody else uses. */
  claimRedis (): string
  /** Forgets all that a server keeps in its database. */
  flush (redisUrl: string): Promise<void>
}

/** @throws {MissingProgramError} */
export async function startStores (guardian: Guardian, progress: (line: string) => void): Promise<Stores> {
  const programs = providePrograms(['postgres', 'redis'], progress)
  // The tests have an empty cluster at hand, which is copied sooner than made.
  const template = process.env.TEST_POSTGRES_CLUSTER
  const cluster = template === undefined ? await createCluster(programs.postgres as string, guardian.folder) : await copyCluster(template, guardian.folder)
  const postgres = await startPostgres(programs.postgres as string, cluster, guardian)
  const redis = await startRedis(programs.redis as string, guardian.folder, guardian)
  let claimed = 0
  return {
    guardian,
    postgresUrl: postgres.url,
    postgresPid: postgres.pid,
    redisPid: redis.pid,
    jwtSecret: randomBytes(32).toString('hex'),
    claimRedis: () => `${redis.url}/${++claimed}`,
    async flush (redisUrl) {
      const client = new Redis(redisUrl, { lazyConnect: true, retryStrategy: null })
      client.on('error', () => {})
      await client.connect()
      await client.flushdb()
      client.disconnect()
    }
  }
}
