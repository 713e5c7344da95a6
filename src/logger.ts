import { createRequire } from 'node:module'
import { pino, stdSerializers, type DestinationStream } from 'pino'
import type { FastifyBaseLogger } from 'fastify'
import { ConfigError, type Config } from './config.ts'

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

/**
 * The logger of a process: lines on standard output, JSON or, with LOG_FORMAT=pretty, for a person.
 *
 * Each line is written before the next statement runs. Collected lines would be cheaper, but those before a crash or a
 * `kill -9`, which are the ones that somebody will look for, would be lost.
 *
 * @throws {ConfigError} LOG_FORMAT=pretty without the package that does it
 */
export const createLogger = ({ LOG_LEVEL, LOG_FORMAT }: Pick<Config, 'LOG_LEVEL' | 'LOG_FORMAT'>): FastifyBaseLogger => {
  const options = { level: LOG_LEVEL, serializers: { err: loggedError, ...withheld } }
  return LOG_FORMAT === 'pretty' ? pino(options, prettyOutput()) : pino(options)
}

/** The fields of a request's line that are in its message then. */
const IN_MESSAGE = ['method', 'route', 'path', 'status', 'ms', 'bytes'] as const

function prettyOutput (): DestinationStream {
  let pretty
  try {
    // Only in development: an installation without the development dependencies doesn't have it.
    pretty = createRequire(import.meta.url)('pino-pretty') as (options: object) => DestinationStream
  } catch {
    throw new ConfigError(['LOG_FORMAT must be json here, pretty needs the package pino-pretty (npm install pino-pretty)'])
  }
  return pretty({
    sync: true,
    singleLine: true,
    translateTime: 'SYS:HH:MM:ss.l',
    ignore: ['pid', 'hostname', ...IN_MESSAGE].join(','),
    messageFormat ({ msg, method, path, status, ms, bytes }: Partial<Record<'msg' | typeof IN_MESSAGE[number], unknown>>) {
      const isAnswer = msg === 'answered' && method !== undefined
      return [method, path, isAnswer ? undefined : msg, status, ms !== undefined && `${ms} ms`, bytes !== undefined && `${bytes} bytes`]
        .filter((part) => part !== undefined && part !== false).join(' ')
    }
  })
}
