import { JsonReader } from '../text/reader.ts'

/** A text, and how it is spaced, for members that have no neighbour to imitate. */
export class Source {
  readonly text: string
  #style: { readonly colon: string, readonly comma: string } | undefined

  constructor (text: string) {
    this.text = text
  }

  /** The first colon with its white space, and the white space after the first comma within a line. */
  get style (): { readonly colon: string, readonly comma: string } {
    this.#style ??= styleOf(this.text)
    return this.#style
  }
}

function styleOf (text: string): { readonly colon: string, readonly comma: string } {
  const reader = new JsonReader(text)
  let colon: string | undefined
  let comma: string | undefined
  for (let type = reader.next(); type !== 'end' && (colon === undefined || comma === undefined);) {
    const { end } = reader
    const isNamed = type === 'name'
    type = reader.next()
    const between = text.slice(end, reader.start)
    if (isNamed) colon ??= between
    else comma ??= /,([ \t]*)$/.exec(between)?.[1]
  }
  colon ??= ':'
  return { colon, comma: comma ?? colon.slice(colon.indexOf(':') + 1) }
}
