import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { readEnvironment } from '../../config.ts'
import { schemaOf } from '../../infra/postgres/connection.ts'
import type { AssetRows } from './rows.ts'
import { BackupError } from './common.ts'

// Runs PostgreSQL's own pg_dump and pg_restore.

/** Parameters of DATABASE_URL that Prisma and node-postgres accept, but libpq refuses. */
const PRISMA_ONLY_PARAMETERS = [
  'schema',
  'connection_limit',
  'pool_timeout',
  'pgbouncer',
  'statement_cache_size',
  'socket_timeout',
  'max_idle_connection_lifetime',
  'sslaccept',
  'sslidentity',
  'sslpassword',
  'uselibpqcompat',
  'statement_timeout',
  'query_timeout'
]

/** Writes a consistent state of the database to a new file. */
export async function dumpDatabase (url: string, file: string, signal?: AbortSignal): Promise<void> {
  await writeFile(file, '', { mode: 0o600, flag: 'wx' }) // every user could read a file that pg_dump creates
  await run('pg_dump', [...schemaArguments(url), '--format=custom', `--file=${file}`], { url, signal })
}

/** Restores a dump into an empty database, in one transaction. */
export async function loadDump (url: string, file: string, signal?: AbortSignal): Promise<void> {
  const args = [
    ...schemaArguments(url),
    '--no-owner',
    '--no-privileges',
    '--exit-on-error',
    '--single-transaction',
    file
  ]
  await run('pg_restore', args, { url, signal })
}

/** Reads the rows of the assets from a dump. This needs no server. */
export async function readDumpedAssetRows (
  file: string,
  schema: string,
  signal?: AbortSignal
): Promise<AssetRows> {
  const rows: AssetRows = new Map()
  let columns: string[] | undefined
  let hasTable = false
  await run('pg_restore', ['--data-only', `--schema=${schema}`, '--table=assets', '--file=-', file], {
    signal,
    async read (output) {
      for await (const line of readLines(output)) {
        const head = /^COPY .*\bassets \((.*)\) FROM stdin;$/.exec(line)
        if (head !== null) {
          columns = (head[1] as string).split(', ')
          hasTable = true
        } else if (line === '\\.') {
          columns = undefined
        } else if (columns !== undefined) {
          // The values are keys, numbers and hexadecimal digits, which COPY never escapes.
          const fields = line.split('\t')
          const field = (name: string) => fields[(columns as string[]).indexOf(name)] as string
          rows.set(field('storage_key'), {
            byteSize: BigInt(field('byte_size')),
            checksum: field('checksum')
          })
        }
      }
    }
  })
  if (!hasTable) throw new BackupError(`${file} contains no assets table`)
  return rows
}

/** Splits at LF only, because COPY doesn't escape other line separators. */
async function* readLines (output: Readable): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of output.setEncoding('utf8') as AsyncIterable<string>) {
    const parts = (rest + chunk).split('\n')
    rest = parts.pop() as string // the last line isn't complete yet
    yield* parts
  }
}

function schemaArguments (url: string): string[] {
  const schema = schemaOf(url)
  return schema === undefined ? [] : [`--schema=${schema}`]
}

/** The password goes into the environment, because every user of the machine can read the arguments. */
function connectionArguments (url: string): { args: string[], env: Record<string, string> } {
  const address = new URL(url)
  const password = decodeURIComponent(address.password)
  address.password = ''
  for (const name of PRISMA_ONLY_PARAMETERS) address.searchParams.delete(name)
  return { args: [`--dbname=${address.href}`], env: password === '' ? {} : { PGPASSWORD: password } }
}

interface RunOptions {
  /** The database to connect to. */
  readonly url?: string
  readonly signal?: AbortSignal | undefined
  /** Reads the standard output of the program. */
  readonly read?: (output: Readable) => Promise<void>
}

async function run (
  program: 'pg_dump' | 'pg_restore',
  args: readonly string[],
  { url, signal, read }: RunOptions
): Promise<void> {
  const connection = url === undefined ? { args: [], env: {} } : connectionArguments(url)
  const child = spawn(program, [...connection.args, ...args], {
    stdio: ['ignore', read === undefined ? 'ignore' : 'pipe', 'pipe'],
    env: { ...readEnvironment(), ...connection.env },
    ...signal !== undefined && { signal }
  })
  let errors = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-4000)
  })
  try {
    const ended = once(child, 'close') as Promise<[number | null, string | null]>
    ended.catch(() => {}) // awaited below, after the output is read
    if (read !== undefined) await read(child.stdout as Readable)
    const [code, endSignal] = await ended
    if (code !== 0) {
      const reason = errors.trim().replace(/^\w+: (error: )?/, '') || `it ended with ${code ?? endSignal}`
      throw new BackupError(`${program} failed: ${reason}`)
    }
  } catch (error) {
    signal?.throwIfAborted()
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
      throw new BackupError(
        `${program} was not found: install PostgreSQL's client programs, of the server's version or ` +
          'newer, or copy by hand as docs/backup.md explains',
        { cause: error }
      )
    }
    throw error
  }
}
