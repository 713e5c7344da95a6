import type pg from 'pg'

/** The location of PostgreSQL: a URL, or the folder and port of a Unix socket. */
export type Connection = string | { readonly host: string, readonly port: number }

/**
 * Returns the options with which pg connects.
 *
 * @throws {Error} if the URL is invalid; the message doesn't contain the URL, which may include a password
 */
export function connectionOptions (connection: Connection): pg.PoolConfig {
  if (typeof connection !== 'string') return { ...connection, user: 'postgres', database: 'postgres' }
  const schema = schemaOf(connection)
  const url = new URL(connection)
  // Prisma's adapter ignores the offset of times, so a session in another time zone would read wrong dates.
  const options = [
    url.searchParams.get('options'),
    '-c TimeZone=UTC',
    schema === undefined ? undefined : `-c search_path=${schema}`
  ]
  url.searchParams.set('options', options.filter(Boolean).join(' '))
  return { connectionString: url.href }
}

/**
 * Returns the schema that a URL names in its `schema` parameter, as Prisma defines it.
 *
 * @returns undefined for `public`, and for the embedded database
 * @throws {Error} if the URL or the name of the schema is invalid
 */
export function schemaOf (connection: Connection): string | undefined {
  if (typeof connection !== 'string') return undefined
  if (!URL.canParse(connection)) {
    throw new Error('DATABASE_URL is not a valid address (special characters in a password must be ' +
      'percent-encoded)')
  }
  const schema = new URL(connection).searchParams.get('schema') ?? 'public'
  if (!/^[a-z_][a-z0-9_$]{0,62}$/.test(schema)) {
    throw new Error('DATABASE_URL names an invalid schema: the name may contain lower-case letters, ' +
      'digits, _ and $')
  }
  return schema === 'public' ? undefined : schema
}

/** Returns the address of a database for messages: without user, password and parameters. */
export function printableAddress (connection: Connection): string {
  if (typeof connection !== 'string') return 'embedded PostgreSQL'
  if (!URL.canParse(connection)) return 'PostgreSQL'
  const { host, pathname, searchParams } = new URL(connection)
  return `PostgreSQL at ${host || searchParams.get('host') || 'localhost'}${pathname === '/' ? '' : pathname}`
}

/** Returns the first line of an error's message. Node's AggregateError may have messages only in `errors`. */
export function messageOf (error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(messageOf).join(', ')
  const message = error instanceof Error ? error.message : String(error)
  return message.split('\n', 1)[0] as string
}
