import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { text } from 'node:stream/consumers'
import { Webhook } from 'standardwebhooks'
import { listen, type Teardown } from './servers.ts'
import { until } from './until.ts'

// An HTTP server on the loopback address that receives messages of webhooks.

export interface ReceivedMessage {
  readonly type: string
  readonly timestamp: string
  readonly data: {
    readonly page: { readonly id: string, readonly public_id: string }
    readonly version: number
    readonly etag: string | null
    readonly author: { readonly type: string, readonly name: string } | null
    readonly merged: number
    readonly since?: string
  }
  /** The `webhook-id`. */
  readonly id: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

export type Receiver = Awaited<ReturnType<typeof startReceiver>>

/** The setting that lets a service reach a receiver. */
export const RECEIVABLE = { WEBHOOK_NETWORKS: '127.0.0.1' }

/**
 * Starts a receiver; the end of the test stops it.
 *
 * @param answer returns the status, perhaps later; by default 204
 * @param tls key and certificate of `localhost`, for https
 */
export async function startReceiver (
  t: Teardown,
  answer: (message: ReceivedMessage, count: number) => number | Promise<number> = () => 204,
  tls?: { readonly key: Buffer, readonly cert: Buffer }
) {
  const messages: ReceivedMessage[] = []
  const listener: RequestListener = (request, response) => {
    text(request).then(async (body) => {
      const message = {
        ...JSON.parse(body),
        id: request.headers['webhook-id'],
        headers: request.headers,
        body
      }
      messages.push(message)
      response.writeHead(await answer(message, messages.length)).end('the body is dropped')
    }).catch(() => response.destroy())
  }
  const server = tls === undefined ? createServer(listener) : createHttpsServer(tls, listener)
  const origin = tls === undefined ? 'http://127.0.0.1' : 'https://localhost'
  return {
    url: `${origin}:${await listen(t, server)}/hook?token=owners-token`,
    /** Everything received, oldest first, also what was refused. */
    messages: messages as readonly ReceivedMessage[],
    /** Waits for message number `count`, and returns it. */
    message: async (count: number) => await until(() => messages[count - 1], `message ${count}`)
  }
}

/** Whether the signature of a message belongs to a secret. */
export function isSignedWith (secret: string, { body, headers }: ReceivedMessage): boolean {
  try {
    new Webhook(secret).verify(body, headers as Record<string, string>)
    return true
  } catch {
    return false
  }
}
