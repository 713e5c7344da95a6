import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import root from 'tap'
import { beginFile } from './tap.ts'

// Reads the names of test files from standard input and runs them one after the other. Loading and warming up
// the service takes two seconds of CPU time, once per process.

const EXPLAIN_AFTER_MS = 10_000

/** A line of standard input. */
export interface Order {
  file: string
  /** The compiled file. */
  path: string
  timeoutMs: number
}

/** The files so far, each with the resources that were open after it. */
const openAfter: Array<{ file: string, resources: string[] }> = []

for await (const line of createInterface({ input: process.stdin })) {
  const { file, path, timeoutMs } = JSON.parse(line) as Order
  await root.test(file, { timeout: timeoutMs }, async (t) => {
    beginFile(t)
    await import(pathToFileURL(path).href)
  })
  // conformance.js reports a failure through the exit code.
  root.pass(`end of file, exit code ${process.exitCode ?? 0}`)
  // The parser emits an assertion only when the next one arrives.
  root.pass('next')
  process.exitCode = undefined
  openAfter.push({ file, resources: process.getActiveResourcesInfo() })
}
// The process ends by itself, unless a test left something open.
setTimeout(() => {
  for (const kind of new Set(process.getActiveResourcesInfo())) {
    console.error(`still open: ${kind}, probably since ${firstLeft(kind)}`)
  }
}, EXPLAIN_AFTER_MS).unref()

/** Returns the file after which a kind of resource stayed open. */
function firstLeft (kind: string): string | undefined {
  const lastWithout = openAfter.findLastIndex(({ resources }) => !resources.includes(kind))
  return openAfter[lastWithout + 1]?.file
}
