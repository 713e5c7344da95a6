import { JsonReader, JsonSyntaxError } from '#json-text'
import { checkJson } from './check.ts'

/** A change of a text, and what is selected in the new one. All places are in UTF-16 units. */
export interface Insertion {
  readonly from: number
  readonly to: number
  readonly insert: string
  readonly anchor: number
  readonly head: number
  /** How many of the strings are inserted. In place of a string of an object, it is only one. */
  readonly count: number
}

/** Strings as JSON. */
interface Strings {
  readonly first: string
  /** As elements of an array. */
  readonly elements: string
  /** As one value, which is an array if there are several. */
  readonly value: string
  readonly count: number
}

/** The name of a new member. It is selected, so that a person can type another one. */
const NAME = 'asset'

/**
 * Puts strings in place of a selection, with what makes the text a document: commas, brackets, a name in an
 * object. In a string, they replace it. In a name, they replace its value, or go to the end of the object or
 * array that is its value. At a place for no value, they go to the end of the document.
 *
 * @param from the selection, to `to`
 * @param values at least one
 */
export function insertStrings (text: string, from: number, to: number, values: readonly string[]): Insertion {
  const json = values.map((value) => JSON.stringify(value))
  const [first = ''] = json
  const elements = json.join(', ')
  const count = json.length
  const strings = { first, elements, value: count === 1 ? elements : `[${elements}]`, count }
  const candidates = candidatesFor(text, from, to, strings)
  const makesDocument = (insertion: Insertion) =>
    checkJson(text.slice(0, insertion.from) + insertion.insert + text.slice(insertion.to)) === undefined
  return candidates.find(makesDocument) ?? candidates.at(-1) as Insertion
}

/** The first that makes the text a document is right; if none does, the last. */
function candidatesFor (text: string, from: number, to: number, strings: Strings): Insertion[] {
  const { first, elements, value, count } = strings
  const string = findString(text, from, to)
  if (string === undefined) {
    const end = text.trimEnd().length - 1
    return [
      ...atSelection(text, from, to, strings),
      ...atEnd(text, end, strings),
      cursorAfter(from, to, value, count)
    ]
  }
  const { start, end } = string
  const [colon] = /^\s*:\s*/.exec(text.slice(end)) ?? []
  return colon !== undefined ? inMember(text, end + colon.length, strings) : [
    cursorAfter(start, end, elements, count),
    cursorAfter(end, end, `: ${value}`, count), // a name that has no value yet
    cursorAfter(start, end, first, 1)
  ]
}

function atSelection (text: string, from: number, to: number, strings: Strings): Insertion[] {
  const { elements, value, count } = strings
  const space = /[^\s{[]$/.test(text.slice(0, from)) ? ' ' : ''
  const afterComma = /,\s*$/.test(text.slice(0, from)) ? space : ', '
  const asValue = (json: string) => [
    cursorAfter(from, to, json, count),
    cursorAfter(from, to, space + json, count, ','),
    cursorAfter(from, to, afterComma + json, count)
  ]
  const asMember = (before: string, after = '') => withName(text, from, to, before, strings, after)
  return [...asValue(elements), ...asValue(value), asMember(''), asMember(space, ','), asMember(afterComma)]
}

/** In place of the value that starts at `start`, or in it. */
function inMember (text: string, start: number, strings: Strings): Insertion[] {
  const end = endOfValue(text, start)
  if (/[{[]/.test(text.charAt(start))) return atEnd(text, end - 1, strings)
  const isMissing = end === start
  return [
    isMissing ? cursorAfter(start, end, strings.value, strings.count)
      : cursorAfter(start, end, strings.first, 1)
  ]
}

/** Returns where a value ends; `start` if there is none. */
function endOfValue (text: string, start: number): number {
  const rest = text.slice(start)
  const reader = new JsonReader(rest)
  try {
    if (reader.next() === 'open') reader.skipValid()
    return start + reader.end
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error
    return start + (/^[^\s,\]}]*/.exec(rest)?.[0].length ?? 0)
  }
}

/** After the last value of an object or array. @param close where its closing bracket is */
function atEnd (text: string, close: number, strings: Strings): Insertion[] {
  const last = text.slice(0, Math.max(close, 0)).trimEnd().length
  const isEmpty = /[{[]$/.test(text.slice(0, last))
  const indentation = /(?:^|\n)([ \t]*)[^\n]*$/.exec(text.slice(0, last))?.[1] ?? ''
  const isOnOneLine = !text.slice(last, close).includes('\n')
  const separator = (isEmpty ? '' : ',') + (isOnOneLine ? isEmpty ? '' : ' ' : `\n${indentation}`)
  return [
    cursorAfter(last, last, separator + strings.elements, strings.count),
    withName(text, last, last, separator, strings)
  ]
}

function cursorAfter (from: number, to: number, insert: string, count: number, rest = ''): Insertion {
  const cursor = from + insert.length
  return { from, to, insert: insert + rest, anchor: cursor, head: cursor, count }
}

/** As the value of a new name, which is selected. */
function withName (
  text: string,
  from: number,
  to: number,
  before: string,
  { value, count }: Strings,
  after = ''
): Insertion {
  const name = freeName(text)
  const anchor = from + before.length + 1
  const insert = `${before}"${name}": ${value}${after}`
  return { from, to, insert, anchor, head: anchor + name.length, count }
}

/** Returns a name that the text doesn't have, because a second one would replace the first. */
function freeName (text: string): string {
  let name = NAME
  for (let number = 2; text.includes(JSON.stringify(name)); number++) name = `${NAME}_${number}`
  return name
}

/** A string, perhaps without its closing quote. A line break ends it. */
const STRING = /"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"?/g

/**
 * Returns where the string is that a selection is in, with its quotes. The text may have errors.
 *
 * @returns undefined if the selection is in no string
 */
function findString (text: string, from: number, to: number): {
  readonly start: number
  readonly end: number
} | undefined {
  for (const { 0: found, index: start } of text.matchAll(STRING)) {
    if (start > from || (start === from && from === to)) return undefined
    const isClosed = found.length > 1 && found.endsWith('"')
    // Without a closing quote, what follows the string is probably not a part of it.
    const end = start + (isClosed ? found.length : found.replace(/[\s,\]}]+$/, '').length)
    if (from < end || (from === end && !isClosed)) return to <= end ? { start, end } : undefined
  }
  return undefined
}
