import { childrenOf, type Field, type Path } from './field.ts'
import { excerpt, labelOf, TITLES } from './labels.ts'

export interface FoundField {
  readonly path: Path
  /** The labels of the groups around it and its own. */
  readonly labels: readonly string[]
  /** What it contains; empty for a group or a list. */
  readonly value: string
}

/** Returns the fields whose labels, names or values have all words of a query, the best ones first. */
export function findFields (root: Field, query: string, limit: number): readonly FoundField[] {
  const words = fold(query).split(/\s+/).filter(Boolean)
  if (words.length === 0) return []
  const found: Array<FoundField & { rank: number }> = []
  const visit = (field: Field, path: Path, labels: readonly string[]) => {
    const value = valueOf(field)
    const own = fold(`${labels.at(-1)} ${path.at(-1)}`)
    const shown = `${own} ${fold(value)}`
    const all = `${fold(labels.join(' '))} ${shown}`
    const isFound = words.every((word) => all.includes(word)) && words.some((word) => shown.includes(word))
    if (path.length > 0 && isFound) {
      const rank = words.every((word) => own.includes(word)) ? 0 : 1
      found.push({ path, labels, value: excerpt(value), rank })
    }
    for (const [step, child] of childrenOf(field)) {
      visit(child, [...path, step], [...labels, stepLabel(child, step)])
    }
  }
  visit(root, [], [])
  return found.sort((one, other) => one.rank - other.rank).slice(0, limit)
}

/** Makes a text ready for searches: in lower case, with `ss` for `ß`, and `σ` for a final sigma. */
const fold = (text: string): string => text.toLowerCase().replaceAll('ß', 'ss').replaceAll('ς', 'σ')

/** Returns the text of a field, as a person sees it; empty for a group or a list. */
export function valueOf (field: Field): string {
  switch (field.type) {
    case 'text':
      return field.text
    case 'switch':
      return field.json === 'true' ? 'Yes' : 'No'
    case 'group':
    case 'list':
    case 'empty':
      return ''
    default:
      return field.json
  }
}

/** Returns what a member or an entry is called. */
export const stepLabel = (field: Field, step: string | number): string =>
  typeof step === 'string' ? labelOf(step) : entryLabel(field, step)

/** Returns what an entry of a list is called: its title, its first text, or its number. */
export function entryLabel (entry: Field, index: number): string {
  const text = entry.type === 'text' ? entry.text : entry.type === 'group' ? titleOf(entry) : valueOf(entry)
  return excerpt(text) || `Entry ${index + 1}`
}

const isUrl = (text: string): boolean => /^(?:https?:\/\/|\/)\S*$/.test(text)

function titleOf (group: Extract<Field, { type: 'group' }>): string {
  const texts = group.members.flatMap(({ name, field }) =>
    field.type === 'text' && field.text.trim() !== '' ? [{ name: name.toLowerCase(), text: field.text }] : []
  )
  const title = TITLES.map((name) => texts.find((member) => member.name === name)).find(Boolean)
  return (title ?? texts.find(({ text }) => !isUrl(text)))?.text ?? ''
}
