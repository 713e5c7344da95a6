import { chownSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ownGuardian } from '../../shared/guardian.ts'
import { accountOf, privateFolder, probePostgres, startInstance } from '../../shared/instances.ts'
import { own, type PrivateServer, type Teardown } from '../../helpers/servers.ts'

/**
 * Starts PgBouncer in transaction mode in front of a database; the end of the test stops it.
 *
 * @param database its URL, whose user and password clients use, too
 * @param lines of the section `pgbouncer`
 */
export async function startPgbouncer (
  t: Teardown,
  program: string,
  database: string,
  lines: readonly string[]
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
