import { LRUCache } from 'lru-cache'

/** Changes of data, without `FOR UPDATE OF` and `DO UPDATE SET`. */
const CHANGES = /(?<!\b(?:FOR|KEY|DO)\s+)\b(INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+([\w."]+)/gi

/** Limited in size, because Prisma generates a different statement for every length of a list. */
const names = new LRUCache<string, string>({ max: 500 })

/** Returns a short name for a statement: its verb and its table, such as `UPDATE landing_pages`. */
export function nameStatement (text: string): string {
  let name = names.get(text)
  if (name === undefined) names.set(text, name = findName(text))
  return name
}

function findName (text: string): string {
  // A WITH query is named after its last part that changes data: the earlier ones prepare it.
  const change = [...text.matchAll(CHANGES)].at(-1)
  const [, verb, table] = change ?? /\b(SELECT)\b[^]*?\bFROM\s+([\w."]+)/i.exec(text) ?? []
  if (verb === undefined || table === undefined) {
    return /^\s*(\w+)/.exec(text)?.[1]?.toUpperCase() ?? 'statement'
  }
  return `${verb.split(/\s/, 1)[0]?.toUpperCase()} ${table.replaceAll('"', '').split('.').at(-1)}`
}
