import { placeOf, type JsonSyntaxError } from '#json-text'

// Sentences for the first error of a JSON text. Each says what to do about the usual mistakes.

const COMMENTS = 'JSON has no comments. Remove this one.'
const QUOTES = 'Text is written in double quotes ("), no others.'
const INNER_QUOTE =
  'For a quotation mark inside a text, write \\". Otherwise, a comma is missing before this.'
const START = 'A document starts with { or [, for example {"title": "Hello"}.'
/** How far around an error its cause is looked for, in UTF-16 units. */
const SEEN = 1000

/** The innermost open bracket. */
interface Opening {
  readonly bracket: string
  readonly line: number
}

/** Returns a sentence that says what to do about an error. */
export function describeSyntaxError (text: string, error: JsonSyntaxError): string {
  const { expected, offset, start } = error
  const opening = error.opening === undefined ? undefined
    : { bracket: text.charAt(error.opening), line: placeOf(text, error.opening).line }
  switch (expected) {
    case 'value':
      return valueMessage(text, start, opening)
    case 'name':
      return nameMessage(text, start, opening)
    case 'colon':
      return isAfterInnerQuote(text, start) ? INNER_QUOTE : 'A colon and a value are missing after the name.'
    case 'separator':
      return separatorMessage(text, start, opening)
    case 'character':
      return stringMessage(text.charAt(offset))
    case 'escape':
      return 'This is no escape. For a backslash, write \\\\.'
    case 'hex':
      return '\\u needs four hexadecimal digits, such as \\u00e9.'
    case 'digit':
      return 'A digit is missing in this number.'
  }
}

/** Returns a sentence that says what to do about a text that isn't an object or array. */
export const describeStart = (text: string, at: number): string => unusual(text, at) ?? START

/** A value was expected at `at`. */
function valueMessage (text: string, at: number, opening: Opening | undefined): string {
  const found = characterAt(text, at)
  if (found === '') return opening === undefined ? `The text is empty. ${START}` : unclosed(opening)
  const before = text.slice(0, at).trimEnd().at(-1)
  if (found === '}' || found === ']') {
    return before === ',' ? `Remove the comma before ${found}.` : `A value is missing before ${found}.`
  }
  if (found === ',') return 'A value is missing before this comma.'
  if (found === '+' || found === '.') return 'A number starts with a digit or a minus sign.'
  const word = wordAt(text, at)
  if (word !== '') {
    const lower = word.toLowerCase()
    if (['true', 'false', 'null'].includes(lower) && lower !== word) return `Write ${lower} in small letters.`
    if (['undefined', 'none', 'nil', 'nan', 'infinity'].includes(lower)) {
      return `JSON has no ${word}. Write null, or put it in double quotes.`
    }
    return `Put ${word} in double quotes, or write true, false, null or a number.`
  }
  return unusual(text, at) ?? `A value is missing before ${quoted(found)}.`
}

/** A name of an object was expected at `at`. */
function nameMessage (text: string, at: number, opening: Opening | undefined): string {
  const found = characterAt(text, at)
  if (found === '' && opening !== undefined) return unclosed(opening)
  if (found === '}') return 'Remove the comma before }.'
  if (found === ',') return 'Remove this comma.'
  const number = mendNumber(text, at)
  if (number !== undefined) return number
  const word = wordAt(text, at)
  if (word !== '') return `Put the name ${word} in double quotes.`
  return unusual(text, at) ?? `A name in double quotes is missing before ${quoted(found)}.`
}

/** A comma or a closing bracket was expected at `at`. */
function separatorMessage (text: string, at: number, opening: Opening | undefined): string {
  const found = characterAt(text, at)
  if (opening === undefined) {
    if (found === '}' || found === ']') return `There is one ${found} too many.`
    return isComment(text, at) ? COMMENTS : 'The document has ended before this. Nothing may follow.'
  }
  if (found === '') return unclosed(opening)
  if (found === '}' || found === ']') return `${found} can't close the ${describe(opening)}.`
  if (/\d/.test(found) && text[at - 1] === '0') return "A number can't start with 0."
  if (isAfterInnerQuote(text, at)) return INNER_QUOTE
  if (/["{[\w-]/.test(found)) return 'A comma is missing before this.'
  return unusual(text, at) ?? `A comma or ${closing(opening)} is missing before ${quoted(found)}.`
}

/** Whether what is at `at` follows a quotation mark that was probably meant to be in the text. */
function isAfterInnerQuote (text: string, at: number): boolean {
  const before = /"([ \t]*)$/.exec(text.slice(Math.max(0, at - SEEN), at))
  const rest = text.slice(at, at + SEEN)
  // A name or a number after a space is rather a member or an element of its own.
  return before !== null && /^[^\s"{}[\],:][^\n]*"/.test(rest) &&
    (before[1] === '' || !/^(?:-?\d|(?:true|false|null)\b|[\p{L}_$][\p{L}\p{N}_$]*[ \t]*:)/u.test(rest))
}

/** Returns what to write for a number with commas, such as `10,50`; `at` is after its first comma. */
function mendNumber (text: string, at: number): string | undefined {
  const [, whole] = /(-?(?:\d{1,3}(?:\.\d{3})+|\d+)),$/.exec(text.slice(Math.max(0, at - SEEN), at)) ?? []
  const [, rest = '', others] = /^(\d+)((?:,\d+)*)(?=[\s,}])/.exec(text.slice(at, at + SEEN)) ?? []
  if (whole === undefined || others === undefined) return undefined
  const before = whole.replaceAll('.', '')
  if (others !== '') return `Write ${before}${rest}${others.replaceAll(',', '')}, without commas.`
  return rest.length === 3 ? `Write ${before}.${rest} with a point, or ${before}${rest} without a comma.`
    : `Write ${before}.${rest}, with a point.`
}

/** @param found what can't stand in a string: a control character; empty at the end of the text */
function stringMessage (found: string): string {
  if (found === '') return 'The string has no end. A " is missing.'
  if (found === '\n' || found === '\r') {
    return 'The string has no end in this line. A " is missing, or write \\n for a line break.'
  }
  if (found === '\t') return 'In a string, write \\t for a tab.'
  return `In a string, write ${escaped(found)} for this control character.`
}

function unusual (text: string, at: number): string | undefined {
  const found = characterAt(text, at)
  if (isComment(text, at)) return COMMENTS
  if (/['`\u2018-\u201f\u00ab\u00bb]/.test(found)) return QUOTES
  if (/[\p{C}\p{Z}]/u.test(found)) {
    return `Remove the invisible character ${
      escaped(found)
    }. Outside of strings, only spaces, tabs and line breaks are allowed.`
  }
  return undefined
}

const isComment = (text: string, at: number): boolean => /^(?:\/[/*]|#)/.test(text.slice(at, at + 2))

const wordAt = (text: string, at: number): string =>
  /^[\p{L}_$][\p{L}\p{N}_$]{0,30}/u.exec(text.slice(at, at + 40))?.[0] ?? ''

const unclosed = (opening: Opening): string =>
  `The ${describe(opening)} has no end. A ${closing(opening)} is missing.`

const describe = ({ bracket, line }: Opening): string => `${bracket} of line ${line}`

const closing = ({ bracket }: Opening): string => bracket === '{' ? '}' : ']'

const quoted = (found: string): string => found === '"' ? found : `"${found}"`

const escaped = (found: string): string => `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`

const characterAt = (text: string, at: number): string => {
  const code = text.codePointAt(at)
  return code === undefined ? '' : String.fromCodePoint(code)
}
