import { createServer } from 'node:http'
import { once } from 'node:events'
import type { FastifyBaseLogger } from 'fastify'
import { Registry } from 'prom-client'

interface MetricsListenerOptions {
  host: string
  port: number
  log: FastifyBaseLogger
}

/**
 * Serves GET and HEAD /metrics on a separate port, which must not be public.
 *
 * @param collect returns the metrics in Prometheus' text format
 * @returns a function that closes the listener
 * @throws {Error} if the port can't be used; the message has one line
 */
export async function serveMetrics (
  { host, port, log }: MetricsListenerOptions,
  collect: () => Promise<string>
): Promise<() => Promise<void>> {
  const json = { 'content-type': 'application/json; charset=utf-8' }
  const server = createServer((request, response) => {
    // Prometheus may be configured to add a query string.
    if (!/^(GET|HEAD)$/.test(request.method ?? '') || !/^\/metrics(\?|$)/.test(request.url ?? '')) {
      response.writeHead(404, json).end(JSON.stringify({ errors: ['Not found'] }))
      return
    }
    collect().then(
      (text) => response.writeHead(200, { 'content-type': Registry.PROMETHEUS_CONTENT_TYPE }).end(text),
      (error: unknown) => {
        log.error({ err: error }, 'metrics could not be collected')
        response.writeHead(500, json).end(JSON.stringify({ errors: ['Something went wrong'] }))
      }
    )
  })
  server.listen(port, host)
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EADDRINUSE') {
      throw new Error(`Port ${port} of ${host} is in use by another process: stop it, or set OPS_PORT to ` +
        'another port')
    }
    throw new Error(`OPS_PORT must be a port that the service can listen on: ${host}:${port} failed (${
      error.code ?? error.message
    })`)
  })
  log.info({ address: server.address() }, 'serving /metrics at this address')
  return async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}
