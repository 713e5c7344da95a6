import { randomBytes } from 'node:crypto'
import { SERVE, startService, type Service } from '../test/helpers/service.ts'

const UNLIMITED = String(2 ** 31 - 1)

/**
 * Starts the built service without limits.
 *
 * @param folder for its uploads
 * @param endings gets the function that stops it
 * @param env more settings
 * @param command starts it
 */
export async function startMeasuredService (
  databaseUrl: string,
  folder: string,
  endings: (() => unknown)[],
  env: Record<string, string> = {},
  command: readonly [string, ...string[]] = SERVE
): Promise<Service> {
  const service = await startService(
    { teardown: (end) => endings.push(end) },
    {
      DATABASE_URL: databaseUrl,
      JWT_SECRET: randomBytes(32).toString('hex'),
      UPLOADS_DIR: `${folder}/uploads`,
      LOG_LEVEL: 'warn',
      SIGN_IN_FAILURES_PER_ACCOUNT: UNLIMITED,
      SIGN_IN_FAILURES_PER_ADDRESS: UNLIMITED,
      RATE_LIMIT_PUBLIC: UNLIMITED,
      ...env
    },
    command,
    true
  )
  return { ...service, url: service.url.replace('localhost', '127.0.0.1') } // avoids name resolution
}
