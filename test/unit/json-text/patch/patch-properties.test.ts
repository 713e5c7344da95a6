import fc from 'fast-check'
import t from 'tap'
import { applyJsonPatch, applyMergePatch, formatPointer, readJson,
  type JsonNode } from '../../../../packages/json-text/src/index.ts'
import { containerText, space, valueText } from '../../../helpers/json-text.ts'
import { LIMITS, refusalOf } from '../../../helpers/patches.ts'
import { applyReference, format, mergeReference, parseValue, ReferenceError, type ReferenceOperation,
  type Value } from './reference-patch.ts'

// Property tests: a patched text says what patching the parsed value says, and no other byte has changed.

const RUNS = { numRuns: 1000 }
const documentText = fc.tuple(space, containerText, space).map((parts) => parts.join(''))

/** Whether no object has a name twice. json-patch.test.ts and merge-patch.test.ts have the others. */
const isUnambiguous = (text: string): boolean => !hasDuplicates(readJson(text))
const hasDuplicates = (node: JsonNode): boolean =>
  node.type === 'array' ? node.elements.some(hasDuplicates)
    : node.type === 'object' && (node.members.some(({ value }) => hasDuplicates(value)) ||
      new Set(node.members.map(({ name }) => name)).size < node.members.length)
const plainDocument = documentText.filter(isUnambiguous)

/** All paths of a value, and some that lead nowhere or to a new member. */
function pathsOf (value: Value, path: readonly string[] = []): string[][] {
  if (typeof value === 'string') return [[...path]]
  const inner = [...value.entries()].flatMap(([key, child]) => pathsOf(child, [...path, String(key)]))
  const others = Array.isArray(value) ? ['-', String(value.length), '01'] : ['new', '__proto__', '~/"']
  return [[...path], ...inner, ...others.map((name) => [...path, name])]
}

/** An operation of any kind at a place that is chosen when the document is known. */
const draftOperation = fc.record({
  op: fc.constantFrom('add', 'remove', 'replace', 'move', 'copy'),
  path: fc.nat(),
  from: fc.nat(),
  value: valueText.filter(isUnambiguous),
  spaces: fc.tuple(space, space)
})
type Draft = typeof draftOperation extends fc.Arbitrary<infer T> ? T : never

const pick = (paths: string[][], choice: number): string[] => paths[choice % paths.length] as string[]

function operationOf ({ op, path, from, value, spaces: [a, b] }: Draft, root: Value): {
  json: string
  reference: ReferenceOperation
} {
  const paths = pathsOf(root)
  const operation = {
    op,
    path: pick(paths, path),
    from: pick(paths, from),
    value: parseValue(value)
  } as const
  const members = [
    `"value"${a}:${b}${value}`,
    `"path":${b}${JSON.stringify(formatPointer(operation.path))}${a}`,
    `"op"${b}:"${op}"`,
    `"from":${JSON.stringify(formatPointer(operation.from))}`
  ]
  return { json: `{${a}${members.join(`,${b}`)}}`, reference: operation }
}

/** Patches the parsed document until an operation fails, which is named by `failed`. */
function patchBoth (
  document: string,
  drafts: readonly Draft[]
): { patch: string, expected?: Value, failed?: string } {
  let root = parseValue(document)
  const operations: string[] = []
  for (const draft of drafts) {
    const { json, reference } = operationOf(draft, root)
    operations.push(json)
    try {
      root = applyReference(root, reference)
    } catch (error) {
      if (!(error instanceof ReferenceError)) throw error
      return { patch: `[${operations.join(',')}]`, failed: `Operation ${operations.length} ` }
    }
  }
  const patch = `[${operations.join(',')}]`
  return typeof root === 'string' ? { patch, failed: 'Operation ' } : { patch, expected: root }
}

t.test('a patched text says what patching the parsed document says', async () => {
  let applied = 0
  fc.assert(
    fc.property(plainDocument, fc.array(draftOperation, { maxLength: 6 }), (document, drafts) => {
      const { patch, expected, failed } = patchBoth(document, drafts)
      if (expected === undefined) {
        const { status, messages } = refusalOf(() => applyJsonPatch(document, patch, LIMITS))
        return status === 422 && messages.length === 1 && messages[0]?.startsWith(failed as string)
      }
      applied++
      return format(parseValue(applyJsonPatch(document, patch, LIMITS))) === format(expected)
    }),
    RUNS
  )
  if (applied < 150) throw new Error(`only ${applied} patches could be applied`)
})

t.test('a merged text says what merging the parsed document says', async () => {
  fc.assert(
    fc.property(plainDocument, plainDocument, (document, patch) => {
      const expected = format(mergeReference(parseValue(document), parseValue(patch)))
      return format(parseValue(applyMergePatch(document, patch, LIMITS))) === expected
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
