// One answer to "is it PostgreSQL that fails, or the request?"

/**
 * PostgreSQL can't answer now: it is away, shutting down, out of connections, or too slow. Whether a statement that was
 * under way took effect is not known, so a write must not be repeated blindly.
 */
export class DatabaseUnavailableError extends Error {
  /** SQLSTATE or the code of the system's error, where there is one. Not `code`: Prisma rewrites errors that have that. */
  readonly reason: string | undefined

  constructor (message: string, options?: { cause?: unknown }) {
    super(message, options)
    this.name = 'DatabaseUnavailableError'
    this.reason = codeOf(options?.cause)
  }
}

/**
 * SQLSTATEs by which PostgreSQL says that the trouble is its own: connection exceptions, insufficient resources,
 * operator intervention (shutdown, start, statement timeout), system errors; and single ones: a deadlock and a
 * serialisation failure (the same request works when it is sent again), a lock that was not available, sessions
 * ended for idling, a standby that only reads.
 */
const UNAVAILABLE_STATES = /^(08...|53...|57...|58...|40001|40P01|55P03|25P03|25P04|25006)$/

/** What Prisma makes of some of them: unreachable, timed out, pool exhausted, closed, too many connections, deadlock. */
const UNAVAILABLE_PRISMA_CODES = new Set(['P1001', 'P1002', 'P1008', 'P1017', 'P2024', 'P2034', 'P2037'])

/** The messages of P2028 (interactive transactions) that stand for slowness and not for a bug. */
const SLOW_TRANSACTION = /unable to start a transaction in the given time|expired transaction|timeout for this transaction/i

/** Tells from an error of `pg`, before Prisma has seen it, whether the statement or the server is to blame. */
export function isServerTrouble (error: unknown): boolean {
  const { severity, code } = error as { severity?: unknown, code?: unknown }
  // Only what PostgreSQL itself reports has a severity; everything else comes from the connection.
  if (typeof severity !== 'string') return true
  return severity === 'FATAL' || severity === 'PANIC' || (typeof code === 'string' && UNAVAILABLE_STATES.test(code))
}

/**
 * Tells whether an error of the database client means that PostgreSQL is away, shutting down, timing out or out of
 * connections. False for constraint violations, missing rows, bad input and bugs.
 */
export function isDatabaseUnavailable (error: unknown): boolean {
  for (let depth = 0, current = error; depth < 5 && current instanceof Error; depth++, current = current.cause) {
    if (current.name === 'DatabaseUnavailableError' || current.name === 'PrismaClientInitializationError') return true
    const code = codeOf(current)
    if (code === undefined) continue
    if (UNAVAILABLE_PRISMA_CODES.has(code)) return true
    if (code === 'P2028' && SLOW_TRANSACTION.test(current.message)) return true
  }
  return false
}

function codeOf (error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null | undefined)?.code
  return typeof code === 'string' ? code : undefined
}
