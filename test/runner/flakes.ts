import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './arguments.ts'
import type { FileResult } from './results.ts'

// Tests that fail and pass when they run again. test/flakes.md counts them on the machines of developers.

const FLAKES = join(ROOT, 'test/flakes.md')

/** Names the outermost tests that failed, as `FILE > NAME`. */
export function failedTests (results: readonly FileResult[]): string[] {
  const names = results.flatMap(({ file, failures }) =>
    failures.map(({ name }) => `${file} > ${name.split(' > ', 1)[0]}`)
  )
  return [...new Set(names)]
}

/** Adds one to the count of each test in the table, and a row for a test that has none. */
function countFlakes (table: string, tests: readonly string[]): string {
  const lines = table.trimEnd().split('\n')
  for (const test of tests) {
    const start = `| \`${test.replaceAll('|', '\\|')}\` | `
    const index = lines.findIndex((line) => line.startsWith(start))
    const [, count = '0', rest = ' | |'] = /^(\d+)(.*)$/.exec(lines[index]?.slice(start.length) ?? '') ?? []
    lines.splice(index < 0 ? lines.length : index, 1, `${start}${Number(count) + 1}${rest}`)
  }
  return `${lines.join('\n')}\n`
}

/** Counts tests of the project in test/flakes.md. */
export function recordFlakes (tests: readonly string[]): void {
  const own = tests.filter((test) => test.startsWith('test/'))
  if (own.length > 0) writeFileSync(FLAKES, countFlakes(readFileSync(FLAKES, 'utf8'), own))
}
