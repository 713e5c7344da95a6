import { checkJson } from './check.ts'

/** A change of a text, and what is selected in the new one. All places are in UTF-16 units. */
export interface Insertion {
  readonly from: number
  readonly to: number
  readonly insert: string
  readonly anchor: number
  readonly head: number
}

/** The name of a new member. It is selected, so that a person can type another one. */
const NAME = 'asset'

/**
 * Puts a string in place of a selection. In a string, it gets no quotes. Elsewhere it gets what makes the
 * text a document: commas, and a name in an object. At a place for no value, it goes to the end of the
 * document.
 *
 * @param from the selection, to `to`
 */
export function insertString (text: string, from: number, to: number, value: string): Insertion {
  const json = JSON.stringify(value)
  if (isInString(text, from)) return cursorAfter(from, to, json.slice(1, -1))
  const space = /[^\s{[]$/.test(text.slice(0, from)) ? ' ' : ''
  const afterComma = /,\s*$/.test(text.slice(0, from)) ? space : ', '
  const name = JSON.stringify(freeName(text))
  const member = `${name}: ${json}`
  const makesDocument = (insertion: Insertion) =>
    checkJson(text.slice(0, insertion.from) + insertion.insert + text.slice(insertion.to)) === undefined
  const atPlace = [
    cursorAfter(from, to, json),
    cursorAfter(from, to, space + json, ','),
    cursorAfter(from, to, afterComma + json),
    onName(from, to, '', name, member),
    onName(from, to, space, name, `${member},`),
    onName(from, to, afterComma, name, member)
  ]
  return atPlace.find(makesDocument) ?? atEnd(text, name, json).find(makesDocument) ??
    cursorAfter(from, to, json)
}

/** Insertions after the last value of the document. */
function atEnd (text: string, name: string, json: string): Insertion[] {
  const close = text.trimEnd().length - 1
  const last = text.slice(0, Math.max(close, 0)).trimEnd().length
  const isEmpty = /[{[]$/.test(text.slice(0, last))
  const indentation = /(?:^|\n)([ \t]*)[^\n]*$/.exec(text.slice(0, last))?.[1] ?? ''
  const isOnOneLine = !text.slice(last, close).includes('\n')
  const separator = (isEmpty ? '' : ',') + (isOnOneLine ? isEmpty ? '' : ' ' : `\n${indentation}`)
  return [
    cursorAfter(last, last, separator + json),
    onName(last, last, separator, name, `${name}: ${json}`)
  ]
}

function cursorAfter (from: number, to: number, insert: string, rest = ''): Insertion {
  const cursor = from + insert.length
  return { from, to, insert: insert + rest, anchor: cursor, head: cursor }
}

function onName (from: number, to: number, before: string, name: string, rest: string): Insertion {
  const start = from + before.length
  return { from, to, insert: before + rest, anchor: start + 1, head: start + name.length - 1 }
}

/** Returns a name that the text doesn't have, because a second one would replace the first. */
function freeName (text: string): string {
  let name = NAME
  for (let number = 2; text.includes(JSON.stringify(name)); number++) name = `${NAME}_${number}`
  return name
}

/**
 * Whether a place in a text is between the quotes of a string. The text may have errors: a line break ends
 * every string.
 */
export function isInString (text: string, offset: number): boolean {
  let isInside = false
  for (let at = 0; at < offset; at++) {
    const character = text[at]
    if (character === '"') isInside = !isInside
    else if (character === '\n') isInside = false
    else if (character === '\\' && isInside) at++
  }
  return isInside
}
