import type { Field, GroupField, ListField } from './field.ts'
import { stepLabel } from './find-fields.ts'
import { labelOf } from './labels.ts'

// What differs between two versions of a document, field by field.

/** A field that differs, or a list whose entries are in another order. */
export interface Change {
  readonly kind: 'added' | 'removed' | 'changed' | 'moved'
  /** The labels of the groups around it and its own; none for the whole document. */
  readonly labels: readonly string[]
  /** Undefined if it was added. */
  readonly before: Field | undefined
  /** Undefined if it was removed. */
  readonly after: Field | undefined
}

/** Returns what differs between two versions, in the order of the later one. */
export function compareFields (before: Field, after: Field): readonly Change[] {
  const changes: Change[] = []
  const visit = (before: Field | undefined, after: Field | undefined, labels: readonly string[]) => {
    if (before?.json === after?.json) return
    if (before?.type === 'group' && after?.type === 'group') return visitMembers(before, after, labels)
    if (before?.type === 'list' && after?.type === 'list') return visitEntries(before, after, labels)
    // The same text with other escapes.
    if (before?.type === 'text' && after?.type === 'text' && before.text === after.text) return
    const kind = before === undefined ? 'added' : after === undefined ? 'removed' : 'changed'
    changes.push({ kind, labels, before, after })
  }
  const visitMembers = (before: GroupField, after: GroupField, labels: readonly string[]) => {
    const find = ({ members }: GroupField, wanted: string) =>
      members.find(({ name }) => name === wanted)?.field
    for (const { name, field } of after.members) visit(find(before, name), field, [...labels, labelOf(name)])
    for (const { name, field } of before.members) {
      if (find(after, name) === undefined) visit(field, undefined, [...labels, labelOf(name)])
    }
  }
  const visitEntries = (before: ListField, after: ListField, labels: readonly string[]) => {
    const pairs = pairEntries(before.entries, after.entries)
    const places = after.entries.map((_, index) => pairs.get(index)).filter((place) => place !== undefined)
    if (places.some((place, index) => place < (places[index - 1] ?? 0))) {
      changes.push({ kind: 'moved', labels, before, after })
    }
    for (const [index, entry] of after.entries.entries()) {
      const earlier = before.entries[pairs.get(index) ?? -1]
      visit(earlier, entry, [...labels, stepLabel(earlier ?? entry, index)])
    }
    for (const [index, entry] of before.entries.entries()) {
      if (!places.includes(index)) visit(entry, undefined, [...labels, stepLabel(entry, index)])
    }
  }
  visit(before, after, [])
  return changes
}

/**
 * Finds for each entry of a list the one that it was before: an equal entry, else one with the same label,
 * else the one at the same place.
 *
 * @returns the earlier index by the later one
 */
function pairEntries (before: readonly Field[], after: readonly Field[]): ReadonlyMap<number, number> {
  const pairs = new Map<number, number>()
  const unpaired = new Set(before.keys())
  const pair = (keyOf: (entry: Field, index: number) => string | number) => {
    const earlier = new Map<string | number, number[]>()
    for (const index of unpaired) {
      const key = keyOf(before[index] as Field, index)
      earlier.set(key, [...earlier.get(key) ?? [], index])
    }
    for (const [index, entry] of after.entries()) {
      const found = pairs.has(index) ? undefined : earlier.get(keyOf(entry, index))?.shift()
      if (found === undefined) continue
      pairs.set(index, found)
      unpaired.delete(found)
    }
  }
  pair(({ json }) => json)
  pair(stepLabel)
  pair((_, index) => index)
  return pairs
}

/** Two texts that differ in one part. */
export interface TextDifference {
  /** What both begin and end with, at the border of a word. */
  readonly start: string
  readonly end: string
  readonly before: string
  readonly after: string
}

/** Returns the part in which two texts differ. */
export function differenceOf (before: string, after: string): TextDifference {
  const [old, young] = [before, after].map((text) => text.split(/(?<=\s)/)) as [string[], string[]]
  const shorter = Math.min(old.length, young.length)
  let start = 0
  while (start < shorter && old[start] === young[start]) start++
  let end = 0
  while (end < shorter - start && old.at(-1 - end) === young.at(-1 - end)) end++
  const middle = (words: string[]) => words.slice(start, words.length - end).join('')
  return {
    start: old.slice(0, start).join(''),
    end: end === 0 ? '' : old.slice(-end).join(''),
    before: middle(old),
    after: middle(young)
  }
}
