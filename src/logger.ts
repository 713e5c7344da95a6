import { pino, stdSerializers } from 'pino'
import type { FastifyBaseLogger } from 'fastify'
import type { Config } from './config.ts'

/**
 * What is logged of an error. Its other fields stay out: PostgreSQL quotes the row that it refused (`detail`), with the
 * e-mail address, the password's hash or the document in it, and libraries attach what they were given.
 */
function loggedError (error: Error): Record<string, unknown> {
  const { type, message, stack, code } = stdSerializers.err(error)
  return { type, message, stack, ...(typeof code === 'string' && { code }) }
}

/** What libraries log by themselves with the headers of the request in it, tokens included: @fastify/multipart at `trace`. */
const withheld = { busboyOptions: () => undefined }

/** The logger of a process: JSON lines on standard output. */
export const createLogger = ({ LOG_LEVEL }: Pick<Config, 'LOG_LEVEL'>): FastifyBaseLogger =>
  pino({ level: LOG_LEVEL, serializers: { err: loggedError, ...withheld } })
