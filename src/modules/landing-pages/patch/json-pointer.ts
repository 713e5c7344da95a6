import type { NewName } from './json-node.ts'

// JSON Pointers (RFC 6901) that keep how their names are written.

/** A JSON Pointer as names from the outermost to the innermost. */
export type Pointer = readonly NewName[]

const UNIT = /\\u[0-9A-Fa-f]{4}|\\.|[^\\]/gs
const ESCAPED: Readonly<Record<string, string>> = { '~0': '~', '~1': '/' }

/**
 * Parses a JSON Pointer.
 *
 * @param json the pointer as a JSON string, without its quotes
 * @returns undefined if it isn't a JSON Pointer
 */
export function parsePointer (json: string): Pointer | undefined {
  const names: { name: string, json: string }[] = []
  let isEscape = false
  for (const [written] of json.matchAll(UNIT)) {
    const unit: string = written.length === 1 ? written : JSON.parse(`"${written}"`)
    const last = names.at(-1)
    if (isEscape) {
      const character = ESCAPED[`~${unit}`]
      if (character === undefined || last === undefined) return undefined
      last.name += character
      last.json += character
      isEscape = false
    } else if (unit === '/') names.push({ name: '', json: '' })
    else if (last === undefined) return undefined
    else if (unit === '~') isEscape = true
    else {
      last.name += unit
      last.json += written
    }
  }
  if (isEscape) return undefined
  return names.map(({ name, json }) => ({ name, json: Buffer.from(`"${json}"`) }))
}

/** Formats a JSON Pointer. */
export const formatPointer = (names: readonly string[]): string =>
  names.map((name) => `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')

const INDEX = /^(?:0|[1-9]\d*)$/

/** The index of an array that a name stands for; NaN if it stands for none. */
export const indexOf = (name: string): number => INDEX.test(name) ? Number(name) : NaN
