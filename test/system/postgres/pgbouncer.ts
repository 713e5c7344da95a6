import { chownSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ownGuardian } from '../../shared/guardian.ts'
import { accountOf, privateFolder, probePostgres, startInstance } from '../../shared/instances.ts'
import { own, type PrivateServer, type Teardown } from '../../helpers/servers.ts'

export interface PgbouncerOptions {
  /** Path of the program. */
  readonly program: string
  /** URL of the database, whose user and password clients use, too. */
  readonly database: string
  /** Lines of the section `pgbouncer`. */
  readonly lines?: readonly string[]
}

/** Starts PgBouncer in transaction mode in front of a database; the end of the test stops it. */
export async function startPgbouncer (
  t: Teardown,
  { program, database, lines = [] }: PgbouncerOptions
): Promise<PrivateServer> {
  const { hostname, port: serverPort, pathname, username, password } = new URL(database)
  const account = accountOf('postgres') // PgBouncer refuses to run as root
  const home = privateFolder(ownGuardian().folder, 'pgbouncer-', account)
  const write = (name: string, text: string): string => {
    const file = join(home, name)
    writeFileSync(file, text, { mode: 0o600 })
    if (account.uid !== undefined) chownSync(file, account.uid, account.gid ?? account.uid)
    return file
  }
  const users = write('users', `"${username}" "${password}"\n`)
  return own(
    t,
    await startInstance({
      name: 'PgBouncer',
      signal: 'SIGTERM',
      lastSignal: 'TERM',
      account,
      log: join(home, 'log'),
      command: (port) => ({
        file: program,
        args: [write(
          'pgbouncer.ini',
          [
            '[databases]',
            `${pathname.slice(1)} = host=${hostname} port=${serverPort}`,
            '[pgbouncer]',
            'pool_mode = transaction',
            'listen_addr = 127.0.0.1',
            `listen_port = ${port}`,
            'unix_socket_dir =',
            'auth_type = scram-sha-256',
            `auth_file = ${users}`,
            ...lines
          ].map((line) => `${line}\n`).join('')
        )]
      }),
      url: (port) => `postgresql://${username}:${password}@127.0.0.1:${port}${pathname}`,
      probe: probePostgres
    }, ownGuardian())
  )
}
