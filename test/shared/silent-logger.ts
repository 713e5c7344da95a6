import type { FastifyBaseLogger } from 'fastify'

/** A logger without output. */
export const silent = {
  level: 'silent',
  fatal () {},
  error () {},
  warn () {},
  info () {},
  debug () {},
  trace () {},
  silent () {},
  child: () => silent
} as unknown as FastifyBaseLogger
