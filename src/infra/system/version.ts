import { readFileSync } from 'node:fs'

// package.json is the only place where the version is written by hand.
const { version } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
  version: string
}

/** The version of this release, such as `0.1.0`. */
export const VERSION = version

/** The commit that was built; undefined if the build did not know it. `npm run build` writes the file. */
export const COMMIT = readCommit()

function readCommit (): string | undefined {
  try {
    return readFileSync(new URL('../../commit', import.meta.url), 'utf8').trim() || undefined
  } catch {
    return undefined
  }
}
