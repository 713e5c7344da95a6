import type { ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'

/** Answers without a body. A null would go through the serialiser of the response's schema and count four bytes. */
export const sendNothing = (reply: FastifyReply): FastifyReply => reply.send(undefined)

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
