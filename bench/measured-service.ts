import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Guardian } from '../test/shared/guardian.ts'
import { startServer, type Server } from './servers.ts'

const UNLIMITED = String(2 ** 31 - 1)

/**
 * Starts the built service without limits.
 *
 * @param endings gets the function that stops it
 * @param env more settings
 * @param cores where it runs
 */
export async function startMeasuredService (
  databaseUrl: string,
  guardian: Guardian,
  endings: (() => unknown)[],
  env: Record<string, string> = {},
  cores?: readonly number[]
): Promise<Server & { readonly url: string }> {
  const server = await startServer(
    {
      name: 'landfall',
      command: [process.execPath, join(import.meta.dirname, '../dist/cli/landfall.js'), 'serve'],
      env: {
        DATABASE_URL: databaseUrl,
        JWT_SECRET: randomBytes(32).toString('hex'),
        UPLOADS_DIR: join(guardian.folder, 'uploads'),
        LOG_LEVEL: 'warn',
        MAX_EVENT_LOOP_DELAY_MS: '0',
        SIGN_IN_FAILURES_PER_ACCOUNT: UNLIMITED,
        SIGN_IN_FAILURES_PER_ADDRESS: UNLIMITED,
        RATE_LIMIT_PUBLIC: UNLIMITED,
        ...env
      }
    },
    cores,
    guardian
  )
  endings.push(server.stop)
  return { ...server, url: `http://127.0.0.1:${server.port}` }
}
