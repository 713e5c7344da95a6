import { lookup } from 'node:dns/promises'
import type { FastifyInstance } from 'fastify'
import { buildApp } from './app.ts'
import type { Config } from './config.ts'

// One process of the service, alone or as one of several workers: app, listener, orderly end.

export interface Serving {
  readonly app: FastifyInstance
  /** Called once, closes in order and ends the process; called again, cuts off what is still in flight. */
  readonly end: (signal: string) => void
}

/**
 * Builds the app and listens.
 *
 * @param onBuilt is given the app's end before it listens, so that no signal is missed
 * @throws {Error} what `buildApp` throws, or that HOST and PORT can't be listened on: one line for whoever runs it
 */
export async function serve (config: Config, onBuilt: (serving: Serving) => void): Promise<Serving> {
  const app = await buildApp(config)
  const serving = { app, end: ending(app) }
  onBuilt(serving)
  // For this name Fastify listens on a second server, for IPv6, of which the limits and the orderly end know nothing.
  const host = config.HOST === 'localhost' ? await lookup(config.HOST, { verbatim: false }).then(({ address }) => address, () => config.HOST) : config.HOST
  await app.listen({ host, port: config.PORT }).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`HOST and PORT must name an address to listen on, which ${config.HOST}:${config.PORT} is not (${error.code ?? error.message})`)
  })
  return serving
}

function ending (app: FastifyInstance): (signal: string) => void {
  let closing = false
  return (signal) => {
    if (closing) {
      app.cutOff()
      return
    }
    closing = true
    app.log.info({ signal }, 'closing: requests in flight are finished first')
    app.drain().then(async () => await app.close()).then(
      () => process.exit(0),
      (error: unknown) => {
        app.log.error({ err: error }, 'closing failed')
        process.exit(1)
      }
    )
  }
}
