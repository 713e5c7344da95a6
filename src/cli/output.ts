import { styleText } from 'node:util'
import type { Progress } from './backup/common.ts'

// Results go to standard output, progress to standard error.

const PROGRESS_INTERVAL_MS = 2000

/** Formats rows as lines with aligned columns. Replaces control characters, to protect the terminal. */
export function formatTable (rows: readonly (readonly string[])[]): string {
  const cells = rows.map((row) => row.map(replaceControlCharacters))
  const widths = (cells[0] ?? []).map((_, column) =>
    Math.max(...cells.map((row) => row[column]?.length ?? 0))
  )
  const formatRow = (row: readonly string[]) =>
    row.map((cell, column) => cell.padEnd(widths[column] as number)).join('  ').trimEnd()
  return cells.map((row) => `${formatRow(row)}\n`).join('')
}

/** Replaces characters that control a terminal, or change the direction of the text after them. */
export const replaceControlCharacters = (text: string): string =>
  text.replace(/[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu, '\ufffd')

/** Invisible characters, except line feeds, tabs, and the joiners of emoji, Persian and Indic words. */
const INVISIBLE = /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

/** Makes control and other invisible characters visible, as `^M` or `<U+202E>`. Keeps line feeds and tabs. */
export const showInvisibleCharacters = (text: string): string =>
  text.replace(INVISIBLE, (character) => {
    const code = character.codePointAt(0) as number
    return code < 0x20 ? `^${String.fromCharCode(code + 0x40)}`
      : `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`
  })

export interface ListFormat<Entry> {
  readonly json: boolean
  /** What is printed instead of an empty table. */
  readonly empty: string
  readonly headings: readonly string[]
  toRow(entry: Entry): readonly string[]
  /** Default: the entry. */
  toJson?(entry: Entry): unknown
}

/** Prints a list as a table or as JSON, each part of it as soon as it is there. */
export async function printList<Entry> (
  parts: AsyncIterable<readonly Entry[]>,
  { json, empty, headings, toRow, toJson = (entry) => entry }: ListFormat<Entry>
): Promise<void> {
  let printed = 0
  for await (const entries of parts) {
    if (json) {
      print(entries.map((entry, index) =>
        `${printed + index === 0 ? '[' : ','}\n${JSON.stringify(toJson(entry))}`
      ).join(''))
    } else if (entries.length > 0) {
      print(formatTable([...printed === 0 ? [headings] : [], ...entries.map(toRow)]))
    }
    printed += entries.length
  }
  if (json) print(printed === 0 ? '[]\n' : '\n]\n')
  else if (printed === 0) print(`${empty}\n`)
}

/** Formats a time such as `2026-01-31T12:30:00.000Z` for a table. */
export const formatTime = (time: string): string => time.replace(/T(..:..).*/, ' $1')

/** Returns a function that prints a line when a step begins, and one every two seconds during a long one. */
export function createProgressPrinter (): (progress: Progress) => void {
  let currentStep = ''
  let printedAt = 0
  return ({ step, files, of, bytes }) => {
    const now = performance.now()
    if (step !== currentStep) printProgress(`${step} …`)
    else if (now - printedAt < PROGRESS_INTERVAL_MS) return
    else {
      const total = of === undefined ? '' : ` of ${of}`
      printProgress(`  ${files}${total} files, ${formatBytes(bytes)}`)
    }
    currentStep = step
    printedAt = now
  }
}

export function printProgress (line: string): void {
  process.stderr.write(`${process.stderr.isTTY ? styleText('dim', line) : line}\n`)
}

export function print (result: string | Uint8Array): void {
  process.stdout.write(result)
}

/**
 * Ends the process with exit code 1 when its output can't be written, for example on a full disk. Lets a
 * command finish when the reader of its output has closed the pipe, as `| head` does.
 */
export function handleOutputErrors (): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', ({ code, message }: NodeJS.ErrnoException) => {
      if (code === 'EPIPE') return
      if (stream === process.stdout) process.stderr.write(`The output can't be written: ${code ?? message}\n`)
      process.exit(1)
    })
  }
}

/** Formats a number with its noun, such as `1 file` or `2 files`. */
export const formatCount = (number: number, noun: string): string =>
  `${number} ${noun}${number === 1 ? '' : 's'}`

/** Formats a size, such as `12 bytes` or `1.5 MiB`. */
export function formatBytes (bytes: number | bigint): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']
  let value = Number(bytes)
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit++
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`
}
