/** Texts whose names are remembered; Prisma's are many, with lists of every length. */
const MAX_KNOWN = 500
const known = new Map<string, string>()

/** A short name for a statement: what it does and to which table, "UPDATE landing_pages". */
export function nameOf (text: string): string {
  let name = known.get(text)
  if (name === undefined) {
    if (known.size >= MAX_KNOWN) known.clear()
    known.set(text, name = makeName(text))
  }
  return name
}

function makeName (text: string): string {
  // A WITH does what it does in its parts: the first of them that changes something, else all of it reads.
  const change = /\b(INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+([\w."]+)/i.exec(text)
  const [, verb, table] = change ?? /\b(SELECT)\b[^]*?\bFROM\s+([\w."]+)/i.exec(text) ?? []
  if (verb === undefined || table === undefined) return /^\s*(\w+)/.exec(text)?.[1]?.toUpperCase() ?? 'statement'
  return `${verb.split(/\s/, 1)[0]?.toUpperCase()} ${table.replaceAll('"', '').split('.').at(-1)}`
}
