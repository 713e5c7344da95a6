import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'

/** A connection of Node's HTTP server; which answer it is at has no public name. */
export type ServingSocket = Socket & { readonly _httpMessage?: ServerResponse | null }

/**
 * Answers without a body. A null would go through the serialiser of the response's schema and count four bytes. At a
 * HEAD, undefined would become a Content-Length of 0, which a 304 would say of what it names (RFC 9110, 8.6).
 */
export const sendNothing = (reply: FastifyReply): FastifyReply =>
  reply.send(reply.request.method === 'HEAD' ? Readable.from([]) : undefined)

/** Calls back once when an answer has gone out whole, or its client has hung up before. */
export function whenOver (response: ServerResponse, callback: (isWhole: boolean) => void): void {
  let isOver = false
  const end = () => {
    if (isOver) return
    isOver = true
    callback(response.writableFinished)
  }
  response.once('finish', end)
  response.once('close', end)
}

/** Says in its head, if that is still to be sent, that the connection ends with this answer. */
export const makeLast = (response: ServerResponse): void => { response.shouldKeepAlive = false }
