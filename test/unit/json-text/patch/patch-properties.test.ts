import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import { applyJsonPatch, applyMergePatch, formatPointer, readJson,
  type JsonNode } from '../../../../packages/json-text/src/index.ts'
import { containerText, space } from '../../../helpers/json-text.ts'
import { LIMITS } from '../../../helpers/patches.ts'

// Property tests: what a patch doesn't name keeps every byte. json-patch.test.ts has the official test suite.

const RUNS = { numRuns: 1000 }
const documentText = fc.tuple(space, containerText, space).map((parts) => parts.join(''))

/** Whether no object has a name twice. json-patch.test.ts and merge-patch.test.ts have the others. */
const isUnambiguous = (text: string): boolean => !hasDuplicates(readJson(text))
const hasDuplicates = (node: JsonNode): boolean =>
  node.type === 'array' ? node.elements.some(hasDuplicates)
    : node.type === 'object' && (node.members.some(({ value }) => hasDuplicates(value)) ||
      new Set(node.members.map(({ name }) => name)).size < node.members.length)
const plainDocument = documentText.filter(isUnambiguous)

/** RFC 7396, 2, on parsed values. */
function merge (target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch
  const merged = new Map(isObject(target) ? Object.entries(target) : [])
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) merged.delete(name)
    else merged.set(name, merge(merged.get(name), value))
  }
  return Object.fromEntries(merged)
}
const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

t.test('a merged text says what merging the parsed document says', async () => {
  fc.assert(
    fc.property(plainDocument, plainDocument, (document, patch) => {
      const expected = merge(JSON.parse(document), JSON.parse(patch))
      return isDeepStrictEqual(JSON.parse(applyMergePatch(document, patch, LIMITS)), expected)
    }),
    RUNS
  )
})

/** Whether the longer text is the shorter one with one piece more. */
function isOnePieceMore (longer: string, shorter: string): boolean {
  let prefix = 0
  while (prefix < shorter.length && longer[prefix] === shorter[prefix]) prefix++
  return longer.endsWith(shorter.slice(prefix))
}

interface Place {
  readonly path: string[]
  readonly node: JsonNode
}

function placesIn (node: JsonNode, path: string[] = []): Place[] {
  const inner = node.type === 'array' ? [...node.elements.entries()]
    : node.type === 'object' ? node.members.map(({ name, value }) => [name, value] as const) : []
  return [{ path, node }, ...inner.flatMap(([name, child]) => placesIn(child, [...path, String(name)]))]
}

/** Applies one operation; undefined if the path leads through a name that occurs more than once. */
function applyOne (document: string, operation: object): string | undefined {
  try {
    return applyJsonPatch(document, JSON.stringify([operation]), LIMITS)
  } catch (error) {
    if ((error as Error).message.includes('more than once')) return undefined
    throw error
  }
}

t.test('an operation changes one piece of the text: the value, or a member or element and its comma', async () => {
  fc.assert(
    fc.property(documentText, fc.nat(), (document, choice) => {
      const places = placesIn(readJson(document))
      const { path, node } = places[choice % places.length] as Place
      const isArray = node.type === 'array'
      const added = isArray || node.type === 'object'
        ? applyOne(document, {
          op: 'add',
          path: formatPointer([...path, isArray ? '0' : 'new name']),
          value: 1
        })
        : undefined
      if (added !== undefined && !isOnePieceMore(added, document)) return false
      if (path.length === 0) return true
      const [replaced, removed] = ['replace', 'remove'].map((op) =>
        applyOne(document, { op, path: formatPointer(path), value: 'new' })
      )
      return replaced === undefined || removed === undefined || (isOnePieceMore(document, removed) &&
        replaced === `${document.slice(0, node.start)}"new"${document.slice(node.end)}`)
    }),
    RUNS
  )
})

/** The texts of the members that a merge patch doesn't name. */
function unnamedIn (document: string, node: JsonNode, patch: JsonNode): string[] {
  if (node.type !== 'object' || patch.type !== 'object') return []
  return node.members.flatMap(({ name, value, nameStart }) => {
    const named = patch.members.find((member) => member.name === name)
    return named === undefined ? document.slice(nameStart, value.end)
      : unnamedIn(document, value, named.value)
  })
}

t.test('a merge patch leaves the text of all members that it does not name', async () => {
  fc.assert(
    fc.property(documentText, documentText, (document, patch) => {
      let result: string
      try {
        result = applyMergePatch(document, patch, LIMITS)
      } catch {
        return true // the names are ambiguous
      }
      let at = 0
      return unnamedIn(document, readJson(document), readJson(patch)).every((text) => {
        const found = result.indexOf(text, at)
        at = found + text.length
        return found >= 0
      })
    }),
    RUNS
  )
})
