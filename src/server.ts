import './fast-ticks.ts'
import { ConfigError, loadConfig, readEnvironment, type Config } from './config.ts'

// The process: settings, then the service itself or the workers that are it.

async function main (): Promise<void> {
  const config = loadConfig(readEnvironment())
  if (config.WEB_CONCURRENCY > 1) {
    // The parts of the service are loaded by the workers alone.
    const { runWorkers } = await import('./cluster/primary.ts')
    await runWorkers(config)
    return
  }
  const { serve } = await import('./serve.ts')
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
  Uploads   ${config.UPLOADS_DIR}

Try it:

  curl -s ${url}/auth/sign_up -H 'Content-Type: application/json' \\
    -d '{"user":{"email":"you@example.com","password":"correct horse","password_confirmation":"correct horse"}}'

Ctrl-C stops it.

`

main().catch((error: unknown) => {
  const message = error instanceof Error ? error.message : String(error)
  process.stderr.write(error instanceof ConfigError ? `Landfall can't start with these settings:\n${message}\n` : `Landfall could not start: ${message}\n`)
  process.exit(1)
})
