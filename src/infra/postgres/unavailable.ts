/**
 * PostgreSQL is unreachable, shutting down, out of connections, or too slow. The statement may have taken
 * effect, so a write must not simply be repeated.
 */
export class DatabaseUnavailableError extends Error {
  /** The SQLSTATE or Node's error code, if any. Not named `code`: Prisma rewrites errors that have one. */
  readonly reason: string | undefined

  constructor (message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'DatabaseUnavailableError'
    const code = (options?.cause as { code?: unknown } | null | undefined)?.code
    this.reason = typeof code === 'string' ? code : undefined
  }
}

/**
 * SQLSTATEs of server faults: connection (08), resources (53), shutdown and timeout (57), system (58),
 * deadlock (40), lock and session timeouts (55P03, 25P03, 25P04), read-only standby (25006).
 */
const SERVER_FAULTS = /^(08...|53...|57...|58...|40001|40P01|55P03|25P03|25P04|25006)$/

/** Whether the server or the connection is at fault for an error of pg, not the statement. */
export function isServerFault (error: unknown): boolean {
  const { severity, code } = error as { severity?: unknown, code?: unknown }
  // Only errors that PostgreSQL reports have a severity; all others come from the connection.
  if (typeof severity !== 'string') return true
  return severity === 'FATAL' || severity === 'PANIC' ||
    (typeof code === 'string' && SERVER_FAULTS.test(code))
}

/**
 * Whether an error, or one of its causes, means that PostgreSQL is unavailable. False for constraint
 * violations, missing rows, bad input and bugs.
 */
export const isDatabaseUnavailable = (error: unknown): boolean =>
  causesOf(error).some((cause) => cause instanceof DatabaseUnavailableError)

/** Returns an error and its causes, the error first. */
export const causesOf = (error: unknown): Error[] =>
  error instanceof Error ? [error, ...causesOf(error.cause)] : []
