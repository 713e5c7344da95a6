import { readJson, type JsonNode } from '#json-text'
import { checkJson } from '../json/check.ts'

/** The most that fields show. */
const MAX_CHARACTERS = 256 * 1024
const MAX_VALUES = 2000

/** Returns a sentence that says why a text can't be shown as a form; undefined if it can. */
export function whyNoFields (text: string): string | undefined {
  if (text.length > MAX_CHARACTERS) return 'This page is too long to be shown as a form.'
  const error = checkJson(text)
  if (error !== undefined) {
    return `The text has a mistake in line ${error.line}. Mend it, and then the form can be shown.`
  }
  const root = readJson(text)
  if (countValues(root) > MAX_VALUES) return 'This page has too many values to be shown as a form.'
  if (root.type === 'object' && new Set(root.members.map(({ name }) => name)).size < root.members.length) {
    return 'Two members of this page have the same name, so it can’t be shown as a form.'
  }
  return undefined
}

/** Counts values that are no objects or arrays, up to one more than the limit. */
function countValues (node: JsonNode): number {
  const children = node.type === 'object' ? node.members.map(({ value }) => value)
    : node.type === 'array' ? node.elements : undefined
  return children === undefined ? 1 : children.reduce((sum, child) => sum + countValues(child), 0)
}
