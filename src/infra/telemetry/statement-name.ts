import { LRUCache } from 'lru-cache'

/** Limited in size, because Prisma generates a different statement for every length of a list. */
const names = new LRUCache<string, string>({ max: 500 })

/** Returns a short name for a statement: its verb and its table, such as `UPDATE landing_pages`. */
export function nameStatement (text: string): string {
  let name = names.get(text)
  if (name === undefined) names.set(text, name = findName(text))
  return name
}

function findName (text: string): string {
  // A WITH query is named after its first part that changes data.
  const change = /\b(INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+([\w."]+)/i.exec(text)
  const [, verb, table] = change ?? /\b(SELECT)\b[^]*?\bFROM\s+([\w."]+)/i.exec(text) ?? []
  if (verb === undefined || table === undefined) {
    return /^\s*(\w+)/.exec(text)?.[1]?.toUpperCase() ?? 'statement'
  }
  return `${verb.split(/\s/, 1)[0]?.toUpperCase()} ${table.replaceAll('"', '').split('.').at(-1)}`
}
