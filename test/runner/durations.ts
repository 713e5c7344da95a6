import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './arguments.ts'
import type { FileResult } from './results.ts'

// The duration of each file: the longest files begin first.

const DURATIONS = join(ROOT, 'test/durations.json')
/** Files that take at most so many seconds are not listed. */
const SHORT = 5

/** Sorts files by their duration, the longest first. */
export function longestFirst (files: readonly string[]): string[] {
  const seconds = readDurations()
  const secondsOf = (file: string) => seconds[file] ?? SHORT
  return [...files].sort((one, other) => secondsOf(other) - secondsOf(one))
}

export function recordDurations (results: readonly FileResult[]): void {
  const seconds = readDurations()
  for (const { file, milliseconds } of results) seconds[file] = Math.ceil(milliseconds / 1000)
  const sorted = Object.entries(seconds)
    .filter(([file, duration]) => duration > SHORT && existsSync(join(ROOT, file)))
    .sort(([one], [other]) => one < other ? -1 : 1)
  writeFileSync(DURATIONS, `${JSON.stringify(Object.fromEntries(sorted), null, 2)}\n`)
}

function readDurations (): Record<string, number> {
  return existsSync(DURATIONS) ? JSON.parse(readFileSync(DURATIONS, 'utf8')) as Record<string, number> : {}
}
