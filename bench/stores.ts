import { randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'
import type { Guardian } from '../test/shared/guardian.ts'
import { copyCluster, createCluster, startPostgres, startRedis } from '../test/shared/instances.ts'
import { providePrograms } from '../test/shared/programs.ts'

// A private PostgreSQL and Redis for all contenders. Each server has its own Redis database.

export interface Stores {
  readonly guardian: Guardian
  readonly postgresUrl: string
  readonly postgresPid: number
  readonly redisPid: number
  readonly jwtSecret: string
  /** Returns the URL of an unused Redis database. */
  claimRedis(): string
  /** Empties a Redis database. */
  flush(redisUrl: string): Promise<void>
}

/** @throws {MissingProgramError} */
export async function startStores (guardian: Guardian, progress: (line: string) => void): Promise<Stores> {
  const programs = providePrograms(['postgres', 'redis'], progress)
  // Inside of a test run there is an empty cluster; copying it is faster than initdb.
  const template = process.env.TEST_POSTGRES_CLUSTER
  const cluster = template === undefined ? await createCluster(programs.postgres, guardian.folder)
    : await copyCluster(template, guardian.folder)
  const postgres = await startPostgres(programs.postgres, cluster, guardian)
  const redis = await startRedis(programs.redis, guardian.folder, guardian)
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
