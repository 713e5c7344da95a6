import { createRequire } from 'node:module'
import { pino, stdSerializers, type DestinationStream } from 'pino'
import type { FastifyBaseLogger } from 'fastify'
import { ConfigError, type Config } from '../../config.ts'

/**
 * Selects the fields of an error that are logged. Other fields may contain secrets: `detail` of PostgreSQL
 * shows the refused row, and libraries attach their input.
 */
function serializeError (error: Error): Record<string, unknown> {
  const { type, message, stack, code } = stdSerializers.err(error)
  return { type, message, stack, ...(typeof code === 'string' && { code }) }
}

const serializers = {
  err: serializeError,
  // @fastify/multipart logs these options at `trace`. They contain the request's access token.
  busboyOptions: () => undefined
}

/**
 * Creates the logger of the process. It writes JSON lines, or readable text with LOG_FORMAT=pretty, to
 * standard output. It writes synchronously, so that a crash loses no lines.
 *
 * @throws {ConfigError} if LOG_FORMAT is `pretty` and pino-pretty is not installed
 */
export function createLogger (
  { LOG_LEVEL, LOG_FORMAT }: Pick<Config, 'LOG_LEVEL' | 'LOG_FORMAT'>
): FastifyBaseLogger {
  const options = { level: LOG_LEVEL, serializers }
  return LOG_FORMAT === 'pretty' ? pino(options, createPrettyOutput()) : pino(options)
}

/** Creates the logger of the command line, whose results are on standard output. */
export const createCommandLogger = (): FastifyBaseLogger => pino({ serializers }, process.stderr)

/** Creates a readable output for development, in which pino-pretty is installed. */
function createPrettyOutput (): DestinationStream {
  let pretty
  try {
    pretty = createRequire(import.meta.url)('pino-pretty') as (options: object) => DestinationStream
  } catch {
    throw new ConfigError([
      'LOG_FORMAT must be json, unless the package pino-pretty is installed (npm install pino-pretty)'
    ])
  }
  return pretty({ sync: true, singleLine: true, translateTime: 'SYS:HH:MM:ss.l', ignore: 'pid,hostname' })
}
