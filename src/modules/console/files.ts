import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { extname, join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { contentHash } from '../../http/conditional-requests.ts'

/** Where the build puts the files. Both src/ and dist/ are three folders above this file. */
export const BUILT_FILES = fileURLToPath(new URL('../../../dist/console/', import.meta.url))

const PAGE = 'index.html'
const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png'
}

/** A file of the console. */
export interface ConsoleFile {
  readonly type: string
  /** The hash of the uncompressed bytes. */
  readonly hash: string
  readonly bytes: Buffer
  /** The Brotli-compressed bytes that the build made; undefined without them. */
  readonly br: Buffer | undefined
}

export interface ConsoleFiles {
  readonly page: ConsoleFile
  /** The other files by their path relative to the page, such as `assets/index-a1b2c3.js`. */
  readonly others: ReadonlyMap<string, ConsoleFile>
}

/** Reads the files of the console into memory. @returns undefined if nobody has built it */
export function readConsoleFiles (folder: string): ConsoleFiles | undefined {
  if (!existsSync(join(folder, PAGE))) return undefined
  const others = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name !== PAGE && !name.endsWith('.br') && statSync(join(folder, name)).isFile())
    .map((name) => [name.replaceAll(sep, '/'), readConsoleFile(join(folder, name))] as const)
  return { page: readConsoleFile(join(folder, PAGE)), others: new Map(others) }
}

function readConsoleFile (path: string): ConsoleFile {
  const bytes = readFileSync(path)
  return {
    type: TYPES[extname(path)] ?? 'application/octet-stream',
    hash: contentHash(bytes),
    bytes,
    br: existsSync(`${path}.br`) ? readFileSync(`${path}.br`) : undefined
  }
}
