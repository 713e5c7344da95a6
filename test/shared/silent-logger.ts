import type { FastifyBaseLogger } from 'fastify'
import { pino } from 'pino'

/** A logger without output. */
export const silent: FastifyBaseLogger = pino({ level: 'silent' })
