import { buildApp } from './app.ts'
import { ConfigError, loadConfig, readEnvironment, type Config } from './config.ts'
import type { FastifyInstance } from 'fastify'

// The process: settings, app, listener, signals.

async function main (): Promise<void> {
  const config = loadConfig(readEnvironment())
  const app = await buildApp(config)
  closeOnSignal(app)
  await app.listen({ host: config.HOST, port: config.PORT }).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`HOST and PORT must name an address to listen on, which ${config.HOST}:${config.PORT} is not (${error.code ?? error.message})`)
  })
  if (config.DATABASE_URL === undefined) process.stdout.write(welcome(app, config))
}

/** Closes in order on SIGTERM and SIGINT; a second signal cuts off what is still in flight. */
function closeOnSignal (app: FastifyInstance): void {
  let closing = false
  const close = (signal: NodeJS.Signals): void => {
    if (closing) {
      app.server.closeAllConnections()
      return
    }
    closing = true
    app.log.info({ signal }, 'closing: requests in flight are finished first')
    app.close().then(
      () => process.exit(0),
      (error: unknown) => {
        app.log.error({ err: error }, 'closing failed')
        process.exit(1)
      }
    )
  }
  process.on('SIGTERM', close)
  process.on('SIGINT', close)
}

const welcome = (app: FastifyInstance, config: Config): string => `
Landfall listens on ${app.baseUrl()}

  Embedded mode: PostgreSQL runs inside of this process, one process only. Set DATABASE_URL and REDIS_URL for more.
  Database  ${config.DATA_DIR}
  Uploads   ${config.UPLOADS_DIR}

Try it:

  curl -s ${app.baseUrl()}/auth/sign_up -H 'Content-Type: application/json' \\
    -d '{"user":{"email":"you@example.com","password":"correct horse","password_confirmation":"correct horse"}}'

Ctrl-C stops it.

`

main().catch((error: unknown) => {
  const message = error instanceof Error ? error.message : String(error)
  process.stderr.write(error instanceof ConfigError ? `Landfall can't start with these settings:\n${message}\n` : `Landfall could not start: ${message}\n`)
  process.exit(1)
})
