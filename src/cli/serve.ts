import { loadConfig, readEnvironment, type Config } from '../config.ts'

/**
 * Starts the service itself, or the workers that are it. SIGTERM and SIGINT end the process.
 *
 * @throws {ConfigError|Error} it can't start
 */
export async function serveCommand (): Promise<undefined> {
  const config = loadConfig(readEnvironment())
  if (config.WEB_CONCURRENCY > 1) {
    // The parts of the service are loaded by the workers alone.
    const { runWorkers } = await import('../cluster/primary.ts')
    await runWorkers(config)
    return
  }
  const { serve } = await import('../serve.ts')
  const { app } = await serve(config, ({ end }) => {
    process.on('SIGTERM', end)
    process.on('SIGINT', end)
  })
  if (config.DATABASE_URL === undefined) process.stdout.write(welcome(app.baseUrl(), config))
}

const welcome = (url: string, config: Config): string => `
Landfall listens on ${url}

  Embedded mode: PostgreSQL runs inside of this process, one process only. Set DATABASE_URL and REDIS_URL for more.
  Database  ${config.DATA_DIR}
  Uploads   ${config.UPLOADS_URL ?? config.UPLOADS_DIR}

Try it:

  curl -s ${url}/auth/sign_up -H 'Content-Type: application/json' \\
    -d '{"user":{"email":"you@example.com","password":"correct horse","password_confirmation":"correct horse"}}'

Ctrl-C stops it.

`
