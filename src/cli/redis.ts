import { createCommandConnection, type RedisCommands, type RedisScripts } from '../infra/redis/connections.ts'
import { withTimeLimit } from '../infra/redis/time-limit.ts'

const TIMEOUT_MS = 5000

/**
 * Runs `action` on the Redis of the settings.
 *
 * @throws {Error} Redis can't be reached, or doesn't answer in time
 */
export async function withRedis<T> (
  url: string,
  scripts: RedisScripts,
  action: (redis: RedisCommands) => Promise<T>
): Promise<T> {
  const redis = createCommandConnection(url, scripts)
  redis.on('error', () => {}) // connect() reports it, too
  let nodeError: Error | undefined
  redis.on('node error', (error: Error) => {
    nodeError = error
  })
  try {
    await redis.connect().catch((error: unknown) => {
      throw nodeError ?? error // for a cluster, connect() doesn't say why
    })
    return await withTimeLimit(action(redis), TIMEOUT_MS)
  } catch (error) {
    throw new Error(`Redis cannot be reached: ${(error as Error).message}`, { cause: error })
  } finally {
    redis.disconnect()
  }
}
