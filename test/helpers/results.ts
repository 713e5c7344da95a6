import { inspect } from 'node:util'
import type { FinalResults, Parser, Result } from 'tap-parser'

// What a test file reported, counted in assertions, and in a form that a person can read.

export interface FileResult {
  file: string
  passed: number
  skipped: number
  /** One for each failed assertion, and for each way in which the file itself failed. */
  failures: Failure[]
  milliseconds: number
  /** What it printed beside its results. */
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
  addErrorOutput (text: string): void
  addFailure (name: string): void
  finish (ending: Ending): FileResult
}

const OUTPUT_LIMIT = 200_000

/** Listens to the parser of a file's output; call it before the first data. */
export function collectResults (file: string, parser: Parser): Collector {
  const result: FileResult = { file, passed: 0, skipped: 0, failures: [], milliseconds: 0, output: '' }
  const print = (text: string) => { if (result.output.length < OUTPUT_LIMIT) result.output += text }
  parser.on('extra', print)
  listen(parser, result)
  let explained = false
  return {
    addErrorOutput: print,
    addFailure: (name) => {
      explained = true
      result.failures.push({ name, detail: '' })
    },
    finish ({ code, signal, milliseconds }) {
      result.milliseconds = milliseconds
      const total = result.passed + result.skipped + result.failures.length
      if (signal !== null && !explained) {
        result.failures.push({ name: `was ended by ${signal}`, detail: '' })
      } else if (code !== 0 && result.failures.length === 0) {
        result.failures.push({ name: `ended with exit code ${code}`, detail: '' })
      } else if (total === 0) {
        result.failures.push({ name: 'has no test in it', detail: '' })
      }
      return result
    }
  }
}

function listen (parser: Parser, result: FileResult): void {
  // Assertions of a subtest count, not the line that sums them up, unless it alone knows of a failure.
  let subtest: { assertions: number, failures: number } | undefined
  const totals = () => ({ assertions: result.passed + result.skipped + result.failures.length, failures: result.failures.length })

  parser.on('child', (child: Parser) => {
    const before = totals()
    listen(child, result)
    child.on('complete', () => {
      const after = totals()
      subtest = { assertions: after.assertions - before.assertions, failures: after.failures - before.failures }
    })
  })
  parser.on('assert', (assertion: Result) => {
    const inner = subtest
    subtest = undefined
    if (assertion.ok || assertion.todo !== false) {
      if (inner !== undefined && inner.assertions > 0) return
      if (assertion.skip !== false || assertion.todo !== false) result.skipped++
      else result.passed++
    } else if (inner === undefined || inner.failures === 0) {
      result.failures.push({ name: assertion.fullname, detail: describe(assertion.diag) })
    }
  })
  parser.on('complete', (results: FinalResults) => {
    for (const failure of results.failures) {
      if (failure.tapError !== null) result.failures.push({ name: parser.fullname || result.file, detail: String(failure.tapError) })
    }
  })
}

/** The diagnostics of an assertion: texts of several lines as they are, the rest in one line each. */
function describe (diagnostics: Record<string, unknown> | null): string {
  const lines: string[] = []
  for (const [name, value] of Object.entries(diagnostics ?? {})) {
    if (name === 'at') {
      const { fileName, lineNumber, columnNumber } = value as Record<string, unknown>
      lines.push(`at ${fileName}:${lineNumber}:${columnNumber}`)
    } else if (typeof value === 'string' && value.includes('\n')) {
      lines.push(`${name}:`, ...value.trimEnd().split('\n').map((line) => `  ${line}`))
    } else {
      lines.push(`${name}: ${typeof value === 'string' ? value : inspect(value, { depth: 6, breakLength: 100 })}`)
    }
  }
  return lines.join('\n')
}

/** One line for a file that passed; for one that failed all there is to know. */
export function formatResult (result: FileResult): string {
  const { file, passed, skipped, failures, output } = result
  const counts = [`${passed} passed`]
  if (failures.length > 0) counts.push(`${failures.length} failed`)
  if (skipped > 0) counts.push(`${skipped} skipped`)
  const head = `${failures.length === 0 ? 'ok  ' : 'FAIL'} ${file} (${counts.join(', ')}, ${(result.milliseconds / 1000).toFixed(1)} s)`
  if (failures.length === 0) return head
  const parts = failures.map(({ name, detail }) => `  ✗ ${name}${detail === '' ? '' : `\n${indent(detail, 6)}`}`)
  if (output.trim() !== '') parts.push(`  what it printed:\n${indent(output.trim(), 6)}`)
  return [head, ...parts].join('\n')
}

function indent (text: string, width: number): string {
  return text.split('\n').map((line) => `${' '.repeat(width)}${line}`.trimEnd()).join('\n')
}
