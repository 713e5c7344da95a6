import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { readEnvironment } from '../config.ts'
import { schemaOf } from '../database/pool.ts'
import type { AssetRows } from './asset-rows.ts'
import { BackupError } from './progress.ts'

// PostgreSQL's own programs, which know best how to copy a database.

/** Parameters of an address that PostgreSQL's programs don't know: they are of Prisma and of node-postgres. */
const NOT_OF_LIBPQ = ['schema', 'connection_limit', 'pool_timeout', 'pgbouncer', 'statement_cache_size', 'socket_timeout', 'max_idle_connection_lifetime', 'sslaccept', 'sslidentity', 'sslpassword', 'uselibpqcompat', 'statement_timeout', 'query_timeout']

/** Writes the database, as it was at one moment, to a file. */
export async function dump (url: string, file: string, signal?: AbortSignal): Promise<void> {
  const schema = schemaOf(url)
  await writeFile(file, '', { mode: 0o600, flag: 'wx' }) // PostgreSQL's program would let everybody read it
  await run('pg_dump', [...login(url).args, '--format=custom', `--file=${file}`, ...schema === undefined ? [] : [`--schema=${schema}`]], { env: login(url).env, signal })
}

/** Puts what `dump` wrote into an empty database: all of it or, when it fails, nothing. */
export async function load (url: string, file: string, signal?: AbortSignal): Promise<void> {
  const schema = schemaOf(url)
  await run('pg_restore', [...login(url).args, '--no-owner', '--no-privileges', '--exit-on-error', '--single-transaction', ...schema === undefined ? [] : [`--schema=${schema}`], file], { env: login(url).env, signal })
}

/** Reads the rows of the assets out of a dump; no server is needed for that. */
export async function dumpedAssetRows (file: string, schema: string, signal?: AbortSignal): Promise<AssetRows> {
  const rows: AssetRows = new Map()
  let columns: string[] | undefined
  let seen = false
  await run('pg_restore', ['--data-only', `--schema=${schema}`, '--table=assets', '--file=-', file], {
    signal,
    async read (output) {
      for await (const line of lines(output)) {
        const head = /^COPY .*\bassets \((.*)\) FROM stdin;$/.exec(line)
        if (head !== null) {
          columns = (head[1] as string).split(', ')
          seen = true
        } else if (line === '\\.') {
          columns = undefined
        } else if (columns !== undefined) {
          // Names, numbers and hexadecimal digits: nothing in these columns that COPY would escape.
          const fields = line.split('\t')
          const field = (name: string) => fields[(columns as string[]).indexOf(name)] as string
          rows.set(field('storage_key'), { byteSize: BigInt(field('byte_size')), checksum: field('checksum') })
        }
      }
    }
  })
  if (!seen) throw new BackupError(`${file} holds no table of assets`)
  return rows
}

/** Ended by a newline alone: COPY writes every other one inside of a field as it is. */
async function * lines (output: Readable): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of output.setEncoding('utf8') as AsyncIterable<string>) {
    const parts = (rest + chunk).split('\n')
    rest = parts.pop() as string
    yield * parts
  }
}

/** The password goes in the environment: everybody on the machine can read the arguments of a program. */
function login (url: string): { args: string[], env: Record<string, string> } {
  const address = new URL(url)
  const password = decodeURIComponent(address.password)
  address.password = ''
  for (const name of NOT_OF_LIBPQ) address.searchParams.delete(name)
  return { args: [`--dbname=${address.href}`], env: password === '' ? {} : { PGPASSWORD: password } }
}

interface RunOptions {
  readonly env?: Record<string, string>
  readonly signal?: AbortSignal | undefined
  readonly read?: (output: Readable) => Promise<void>
}

async function run (program: string, args: readonly string[], { env = {}, signal, read }: RunOptions): Promise<void> {
  const child = spawn(program, args, {
    stdio: ['ignore', read === undefined ? 'ignore' : 'pipe', 'pipe'],
    env: { ...readEnvironment(), ...env },
    ...signal !== undefined && { signal }
  })
  let errors = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => { errors = (errors + text).slice(-4000) })
  try {
    const ended = once(child, 'close') as Promise<[number | null, string | null]>
    ended.catch(() => {})
    if (read !== undefined) await read(child.stdout as Readable)
    const [code, endSignal] = await ended
    if (code !== 0) throw new BackupError(`${program} failed: ${errors.trim().replace(/^\w+: (error: )?/, '') || `it ended with ${code ?? endSignal}`}`)
  } catch (error) {
    signal?.throwIfAborted()
    if ((error as NodeJS.ErrnoException).code === 'ENOENT' && (error as NodeJS.ErrnoException).syscall?.startsWith('spawn') === true) {
      throw new BackupError(`${program} was not found: install PostgreSQL's client programs, of the server's version or newer, or copy by hand as docs/backup.md tells`, { cause: error })
    }
    throw error
  }
}
