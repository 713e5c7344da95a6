import type { Name } from './json-node.ts'

// JSON Pointers (RFC 6901) that keep how their names are written.

/** A JSON Pointer as names from the outermost to the innermost. */
export type Pointer = readonly Name[]

/** The characters that have a meaning in pointers. */
const SPECIAL = '/~01'

/**
 * Parses a JSON Pointer.
 *
 * @param json the pointer as a JSON string, with its quotes
 * @returns undefined if it isn't a JSON Pointer
 */
export function parsePointer (json: string): Pointer | undefined {
  const pointer = json.slice(1, -1).replace(/\\(?:u[0-9a-f]{4}|.)/gi, (escape) => {
    const character: string = JSON.parse(`"${escape}"`)
    return SPECIAL.includes(character) ? character : escape
  })
  if ((pointer !== '' && !pointer.startsWith('/')) || /~(?![01])/.test(pointer)) return undefined
  return pointer.split('/').slice(1).map((written) => {
    const json = `"${written.replaceAll('~1', '/').replaceAll('~0', '~')}"`
    return { name: JSON.parse(json), json }
  })
}

const INDEX = /^(?:0|[1-9]\d*)$/

/** The index of an array that a name stands for; NaN if it stands for none. */
export const indexOf = (name: string): number => INDEX.test(name) ? Number(name) : NaN
