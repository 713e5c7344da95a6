import { JsonReader } from './reader.ts'

/**
 * Indents a text by two spaces, with one member or element in each line. It changes only white space between
 * tokens: digits, escapes, order and duplicate names stay.
 *
 * @param maxIndent deeper levels are not indented further
 * @throws {JsonSyntaxError}
 */
export function formatJson (text: string, maxIndent = Infinity): string {
  const reader = new JsonReader(text)
  const parts: string[] = []
  const breakLine = (depth: number) => parts.push('\n', '  '.repeat(Math.min(depth, maxIndent)))
  let previous = 'name'
  for (let type = reader.next(); type !== 'end'; type = reader.next()) {
    if (type === 'close') {
      if (previous !== 'open') breakLine(reader.depth)
    } else if (previous !== 'name') {
      if (previous !== 'open') parts.push(',')
      breakLine(reader.depth - (type === 'open' ? 1 : 0))
    }
    parts.push(text.slice(reader.start, reader.end))
    if (type === 'name') parts.push(': ')
    previous = type
  }
  return parts.join('')
}
