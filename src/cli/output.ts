import { styleText } from 'node:util'
import type { Progress } from '../backup/progress.ts'

// Results for standard output, progress for standard error.

const PROGRESS_INTERVAL_MS = 2000

/** Rows with their columns under each other, each ended by a new line. Control characters are shown, not obeyed. */
export function table (rows: readonly (readonly string[])[]): string {
  const shown = rows.map((row) => row.map(printable))
  const widths: number[] = []
  for (const row of shown) for (const [index, cell] of row.entries()) widths[index] = Math.max(widths[index] ?? 0, [...cell].length)
  return shown.map((row) => `${row.map((cell, index) => index === row.length - 1 ? cell : cell + ' '.repeat((widths[index] as number) - [...cell].length)).join('  ')}\n`).join('')
}

// eslint-disable-next-line no-control-regex
const printable = (text: string): string => text.replace(/[\u0000-\u001f\u007f-\u009f]/g, '\ufffd')

/** A line for each step, and one every two seconds in a long one. */
export function progressLines (): (progress: Progress) => void {
  let step = ''
  let last = 0
  return (progress) => {
    const now = performance.now()
    if (progress.step !== step) say(`${progress.step} …`)
    else if (now - last < PROGRESS_INTERVAL_MS) return
    else say(`  ${progress.files}${progress.of === undefined ? '' : ` of ${progress.of}`} files, ${size(BigInt(progress.bytes))}`)
    step = progress.step
    last = now
  }
}

/** A line for whoever watches. */
export function say (line: string): void {
  process.stderr.write(`${process.stderr.isTTY ? styleText('dim', line) : line}\n`)
}

/** A result. */
export function print (text: string): void {
  process.stdout.write(text)
}

/** Whoever reads may have had enough: `| head`. What is done goes on, and its exit code is its own. */
export function outliveReaders (): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => { if (error.code !== 'EPIPE') throw error })
  }
}

export const count = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? '' : 's'}`

export function size (bytes: bigint): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']
  let value = Number(bytes)
  let unit = 0
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit++ }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`
}
