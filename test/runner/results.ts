import { inspect } from 'node:util'
import type { FinalResults, Parser, Result } from 'tap-parser'

// Collects the results of a test file, counts its assertions, and formats its failures.

export interface FileResult {
  file: string
  passed: number
  skipped: number
  /** Failed assertions, and failures of the file itself. */
  failures: Failure[]
  milliseconds: number
  /** Its output besides the results. */
  output: string
}

export interface Failure {
  name: string
  /** Lines. */
  detail: string
}

export interface Ending {
  code: number | null
  signal: string | null
  milliseconds: number
}

export interface Collector {
  /** Listens to the test that represents the file. Call this before its first assertion. */
  listen(parser: Parser): void
  /** Adds output besides the results. */
  addOutput(text: string): void
  addFailure(name: string): void
  /** Adds a failure of the test that represents the file, unless a test inside of it failed. */
  addFileFailure(): void
  finish(ending: Ending): FileResult
}

export const NO_TEST = 'has no test in it'
const OUTPUT_LIMIT = 200_000

/** Collects the results of one file. */
export function collectResults (file: string): Collector {
  const result: FileResult = { file, passed: 0, skipped: 0, failures: [], milliseconds: 0, output: '' }
  const print = (text: string) => {
    if (result.output.length < OUTPUT_LIMIT) result.output += text
  }
  let explained = false
  return {
    listen: (parser) => listen(parser, result),
    addOutput: print,
    addFailure: (name) => {
      explained = true
      result.failures.push({ name, detail: '' })
    },
    addFileFailure () {
      if (result.failures.length === 0) result.failures.push({ name: 'failed', detail: '' })
    },
    finish ({ code, signal, milliseconds }) {
      result.milliseconds = milliseconds
      const total = result.passed + result.skipped + result.failures.length
      if (signal !== null && !explained) {
        result.failures.push({ name: `was ended by ${signal}`, detail: '' })
      } else if (code !== 0 && result.failures.length === 0) {
        result.failures.push({ name: `ended with exit code ${code}`, detail: '' })
      } else if (total === 0) {
        result.failures.push({ name: NO_TEST, detail: '' })
      }
      return result
    }
  }
}

function listen (parser: Parser, result: FileResult): void {
  // The assertions of a subtest count. Its summary line counts only if it is the only sign of a failure.
  let subtest: { assertions: number, failures: number } | undefined
  const totals = () => ({
    assertions: result.passed + result.skipped + result.failures.length,
    failures: result.failures.length
  })

  parser.on('child', (child: Parser) => {
    const before = totals()
    listen(child, result)
    child.on('complete', () => {
      const after = totals()
      subtest = {
        assertions: after.assertions - before.assertions,
        failures: after.failures - before.failures
      }
    })
  })
  parser.on('assert', (assertion: Result) => {
    const inner = subtest
    subtest = undefined
    if (assertion.skip !== false && String(assertion.skip).startsWith('filter')) return // by --grep
    if (assertion.ok || assertion.todo !== false) {
      if (inner !== undefined && inner.assertions > 0) return
      if (assertion.skip !== false || assertion.todo !== false) result.skipped++
      else result.passed++
    } else if (inner === undefined || inner.failures === 0) {
      result.failures.push({
        name: within(result.file, assertion.fullname),
        detail: describe(assertion.diag)
      })
    }
  })
  parser.on('complete', (results: FinalResults) => {
    for (const failure of results.failures) {
      if (failure.tapError !== null) {
        result.failures.push({ name: within(result.file, parser.fullname), detail: String(failure.tapError) })
      }
    }
  })
}

/** Returns the name of a test or assertion without the name of its file. */
function within (file: string, name: string): string {
  return name.startsWith(`${file} > `) ? name.slice(file.length + 3) : name || file
}

/** Formats the diagnostics of an assertion: one line per value, except for texts of several lines. */
function describe (diagnostics: Record<string, unknown> | null): string {
  const lines: string[] = []
  for (const [name, value] of Object.entries(diagnostics ?? {})) {
    if (name === 'at') {
      const { fileName, lineNumber, columnNumber } = value as Record<string, unknown>
      lines.push(`at ${fileName}:${lineNumber}:${columnNumber}`)
    } else if (typeof value === 'string' && value.includes('\n')) {
      lines.push(`${name}:`, ...value.trimEnd().split('\n').map((line) => `  ${line}`))
    } else {
      lines
        .push(`${name}: ${
          typeof value === 'string' ? value : inspect(value, { depth: 6, breakLength: 100 })
        }`)
    }
  }
  return lines.join('\n')
}

/** Formats a result: one line if the file passed, otherwise also all failures and the output. */
export function formatResult (result: FileResult): string {
  const { file, passed, skipped, failures, output } = result
  const counts = [`${passed} passed`]
  if (failures.length > 0) counts.push(`${failures.length} failed`)
  if (skipped > 0) counts.push(`${skipped} skipped`)
  const head = `${failures.length === 0 ? 'ok  ' : 'FAIL'} ${file} (${counts.join(', ')}, ${
    (result.milliseconds / 1000).toFixed(1)
  } s)`
  if (failures.length === 0) return head
  const parts = failures.map(({ name, detail }) =>
    `  ✗ ${name}${detail === '' ? '' : `\n${indent(detail, 6)}`}`
  )
  if (output.trim() !== '') parts.push(`  output:\n${indent(output.trim(), 6)}`)
  return [head, ...parts].join('\n')
}

function indent (text: string, width: number): string {
  return text.split('\n').map((line) => `${' '.repeat(width)}${line}`.trimEnd()).join('\n')
}
