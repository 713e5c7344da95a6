import { styleText } from 'node:util'
import { formatJson } from '#json-text'
import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff'
import { formatBytes, showInvisibleCharacters } from './output.ts'

// Unified diffs of documents, for people.

/** Documents in one line that is longer than this are laid out before they are compared. */
const LONG_LINE = 100
const CONTEXT_LINES = 3
const MAX_BYTES = 8 * 1024 * 1024
/** The time to search for a short diff. */
const TIMEOUT_MS = 3000
const SHOWN_LINES = 400
const SHOWN_COLUMNS = 2000

/** Deeper levels are not indented further. */
const MAX_INDENT = 20

export interface NamedDocument {
  readonly name: string
  readonly bytes: Uint8Array
}

/** Returns a unified diff of two different documents in JSON. Control characters are made visible. */
export function formatDiff (before: NamedDocument, after: NamedDocument): string {
  const [oldSize, newSize] = [before, after].map(({ bytes }) => formatBytes(bytes.length))
  const tooMuch = `There is too much to show: ${oldSize} now, ${newSize} then.\n`
  if (before.bytes.length + after.bytes.length > MAX_BYTES) return tooMuch
  const texts = [before, after].map(({ bytes }) => new TextDecoder().decode(bytes))
  const isLaidOut = texts.some((text) => text.length > LONG_LINE && !text.trim().includes('\n'))
  const layOut = (text: string): string => `${formatJson(text, MAX_INDENT)}\n`
  const [from, to] = (isLaidOut ? texts.map(layOut) : texts) as [string, string]
  if (from === to) return 'Only white space or a byte order mark differs.\n'
  const patch = createTwoFilesPatch(before.name, after.name, from, to, undefined, undefined, {
    context: CONTEXT_LINES,
    headerOptions: FILE_HEADERS_ONLY,
    timeout: TIMEOUT_MS
  })
  if (patch === undefined) return tooMuch
  const note = isLaidOut ? 'The documents are laid out to compare them; white space is not shown.\n' : ''
  return `${note}${colour(showInvisibleCharacters(shorten(patch)))}`
}

function shorten (patch: string): string {
  const lines = patch.split('\n')
  const shown = lines.slice(0, SHOWN_LINES).map((line) =>
    line.length <= SHOWN_COLUMNS ? line
      : `${line.slice(0, SHOWN_COLUMNS)}… (${line.length - SHOWN_COLUMNS} more characters)`
  )
  return lines.length <= SHOWN_LINES ? shown.join('\n')
    : `${shown.join('\n')}\n… (${lines.length - SHOWN_LINES} more lines)\n`
}

const COLOURS = { '-': 'red', '+': 'green', '@': 'cyan' } as const

function colour (patch: string): string {
  if (!process.stderr.isTTY || !process.stderr.hasColors()) return patch
  return patch.replace(/^[-+@].*$/gm, (line) => styleText(COLOURS[line[0] as '-' | '+' | '@'], line))
}
