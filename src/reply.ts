import type { FastifyReply } from 'fastify'

/** Answers without a body. A null would go through the serialiser of the response's schema and count four bytes. */
export const sendNothing = (reply: FastifyReply): FastifyReply => reply.send(undefined)
