// A parser of JSON text that keeps what JSON.parse loses: digits, order, duplicates, and places in the text.

interface Span {
  readonly start: number
  readonly end: number
}

/** A value of a text. A scalar is its JSON text. */
export type JsonTree =
  | Span & { readonly kind: 'scalar', readonly json: string }
  | Span & { readonly kind: 'array', items: JsonTree[] }
  | Span & { readonly kind: 'object', members: JsonMember[] }

export interface JsonMember {
  readonly name: string
  value: JsonTree
  /** Where the name starts. */
  readonly start: number
}

const SPACE = /[ \t\r\n]*/y
const STRING = /"(?:[^"\\]|\\.)*"/y
const SCALAR = /"(?:[^"\\]|\\.)*"|[^\s,\]}]+/y

/** @param text valid JSON */
export function parseTree (text: string): JsonTree {
  let at = 0
  const match = (pattern: RegExp): string => {
    pattern.lastIndex = at
    const [found] = pattern.exec(text) as RegExpExecArray
    at += found.length
    return found
  }
  const list = <T>(close: string, item: () => T): T[] => {
    const items: T[] = []
    at++
    match(SPACE)
    while (text[at] !== close) {
      items.push(item())
      match(SPACE)
      if (text[at] === ',') at++
      match(SPACE)
    }
    at++
    return items
  }
  const member = (): JsonMember => {
    const start = at
    const name = JSON.parse(match(STRING)) as string
    match(SPACE)
    at++
    return { name, value: value(), start }
  }
  const value = (): JsonTree => {
    match(SPACE)
    const start = at
    if (text[at] === '[') {
      const items = list(']', value)
      return { kind: 'array', items, start, end: at }
    }
    if (text[at] === '{') {
      const members = list('}', member)
      return { kind: 'object', members, start, end: at }
    }
    const json = match(SCALAR)
    return { kind: 'scalar', json, start, end: at }
  }
  return value()
}

/** What a tree says, without places, to be compared. */
export function contentOf (tree: JsonTree): unknown {
  switch (tree.kind) {
    case 'scalar':
      return tree.json
    case 'array':
      return tree.items.map(contentOf)
    case 'object':
      return { members: tree.members.map(({ name, value }) => [name, contentOf(value)]) }
  }
}
