import { isSpace } from './check.ts'

/**
 * Indents a text by two spaces, with one member or element in each line. It changes only white space between
 * tokens: digits, escapes, order and duplicate names stay.
 *
 * @param text valid JSON
 */
export function formatJson (text: string): string {
  const parts: string[] = []
  let indent = '\n'
  let at = skipSpace(text, 0)
  while (at < text.length) {
    const start = at
    at = findTokenEnd(text, at)
    const token = text.slice(start, at)
    at = skipSpace(text, at)
    if (token === '{' || token === '[') {
      if (text[at] === '}' || text[at] === ']') {
        parts.push(token, text.charAt(at))
        at = skipSpace(text, at + 1)
      } else {
        indent += '  '
        parts.push(token, indent)
      }
    } else if (token === '}' || token === ']') {
      indent = indent.slice(0, -2)
      parts.push(indent, token)
    } else if (token === ',') parts.push(token, indent)
    else if (token === ':') parts.push(': ')
    else parts.push(token)
  }
  return parts.join('')
}

function skipSpace (text: string, at: number): number {
  while (isSpace(text.charCodeAt(at))) at++
  return at
}

/** @param at where a token starts */
function findTokenEnd (text: string, at: number): number {
  const first = text.charAt(at)
  if ('{}[],:'.includes(first)) return at + 1
  if (first === '"') return findStringEnd(text, at)
  // A number or a word.
  do at++
  while (at < text.length && !isSpace(text.charCodeAt(at)) && !'}],'.includes(text.charAt(at)))
  return at
}

function findStringEnd (text: string, at: number): number {
  for (at++; text[at] !== '"'; at++) {
    if (text[at] === '\\') at++
  }
  return at + 1
}
