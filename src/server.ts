import { lookup } from 'node:dns/promises'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { buildApp } from './app.ts'
import type { Config } from './config.ts'

// Runs the service in one process, which is either the only one or one of several workers.

export interface Serving {
  readonly app: FastifyInstance
  /** Shuts down gracefully and ends the process. A second call closes all connections at once. */
  readonly end: (signal: string) => void
}

/**
 * Builds the app and listens.
 *
 * @param onBuilt called when the app is built but not yet listening, so that a signal can already end it
 * @param logger default: a new one
 * @throws {Error} if `buildApp` fails, or the address can't be used; the message has one line
 */
export async function serve (
  config: Config,
  onBuilt: (serving: Serving) => void,
  logger?: FastifyBaseLogger
): Promise<Serving> {
  const app = await buildApp(config, logger)
  const serving = { app, end: createEnd(app) }
  onBuilt(serving)
  // For `localhost`, Fastify starts a second server that the connection limit and the shutdown don't cover.
  const host = config.HOST === 'localhost'
    ? await lookup(config.HOST, { verbatim: false }).then(({ address }) => address, () => config.HOST)
    : config.HOST
  await app.listen({ host, port: config.PORT }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EADDRINUSE') {
      throw new Error(`Port ${config.PORT} of ${config.HOST} is in use by another process: stop it, or set ` +
        'PORT to another port')
    }
    throw new Error('HOST and PORT must name an address that the service can listen on: ' +
      `${config.HOST}:${config.PORT} failed (${error.code ?? error.message})`)
  })
  return serving
}

function createEnd (app: FastifyInstance): (signal: string) => void {
  let closing = false
  return (signal) => {
    if (closing) {
      app.cutOff()
      return
    }
    closing = true
    app.log.info({ signal }, 'shutting down after the requests in flight')
    app.shutDown().then(async () => await app.close()).then(
      () => {
        app.log.info({ signal }, 'closed')
        process.exit(0)
      },
      (error: unknown) => {
        app.log.error({ err: error }, 'shutdown failed')
        process.exit(1)
      }
    )
  }
}
