import { readFileSync } from 'node:fs'

// package.json is the only place where the version is written by hand.
const { version } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
  version: string
}

/** The version of this release, such as `0.1.0`. */
export const VERSION = version
