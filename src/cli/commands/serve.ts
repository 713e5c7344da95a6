import { loadConfig, readEnvFile, readEnvironment, type Config } from '../../config.ts'
import { COMMIT, VERSION } from '../../infra/system/version.ts'
import { createLogger } from '../../infra/telemetry/logger.ts'
import { findUnknownNames } from '../misspelt-names.ts'

/**
 * Starts the service, in this process or in WEB_CONCURRENCY workers. SIGTERM and SIGINT end the process.
 *
 * @throws {ConfigError|Error} when it can't start
 */
export async function serveUntilSignal (): Promise<void> {
  const environment = readEnvironment()
  const config = loadConfig(environment)
  const log = createLogger(config)
  log.info({ version: VERSION, commit: COMMIT, node: process.version }, 'Landfall starts')
  for (const { sentence } of findUnknownNames(environment, readEnvFile())) log.warn(sentence)
  if (config.WEB_CONCURRENCY > 1) {
    // Only the workers load the service itself.
    const { runWorkers } = await import('../../cluster/primary.ts')
    await runWorkers(config, log)
    return
  }
  const { serve } = await import('../../server.ts')
  const { app } = await serve(config, ({ end }) => {
    process.on('SIGTERM', end)
    process.on('SIGINT', end)
  }, log)
  if (config.DATABASE_URL === undefined) process.stdout.write(welcomeMessage(app.baseUrl(), config))
}

const welcomeMessage = (url: string, config: Config): string => `
Landfall listens on ${url}

  Embedded mode: PostgreSQL runs inside this process, and only one process can serve. To scale, set DATABASE_URL
  and REDIS_URL.
  Database  ${config.DATA_DIR}
  Uploads   ${config.UPLOADS_URL ?? config.UPLOADS_DIR}
  API       ${url}/docs${config.CONSOLE ? `\n  Console   ${url}/console` : ''}

Try it:

  curl -s ${url}/auth/sign_up -H 'Content-Type: application/json' \\
    -d '{"user":{"email":"you@example.com","password":"correct horse","password_confirmation":"correct horse"}}'

Press Ctrl-C to stop.

`
