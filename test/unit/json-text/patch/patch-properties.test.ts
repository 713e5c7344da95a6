import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import t from 'tap'
import { applyJsonPatch, applyMergePatch, formatPointer, readJson,
  type JsonNode } from '../../../../packages/json-text/src/index.ts'
import { containerText, space, valueText } from '../../../helpers/json-text.ts'
import { LIMITS, refusalOf } from '../../../helpers/patches.ts'
import { applyReference, mergeReference, parseTree, ReferenceError, type ReferenceOperation,
  type Tree } from './reference-patch.ts'

// Property tests: a patched text says what patching the parsed value says, and no other byte has changed.

const documentText = fc.tuple(space, containerText, space).map((parts) => parts.join(''))

/** All paths of a tree, and some that lead nowhere or to a new member. */
function pathsOf (tree: Tree, path: readonly string[] = []): string[][] {
  if (typeof tree === 'string') return [[...path]]
  const { type, entries } = tree
  const inner = entries.flatMap(([name, value], index) =>
    pathsOf(value, [...path, type === 'array' ? String(index) : name])
  )
  const others = type === 'array' ? ['-', String(entries.length), '01'] : ['new', '__proto__', '~/"']
  return [[...path], ...inner, ...others.map((name) => [...path, name])]
}

/** An operation of any kind at a place that is chosen when the document is known. */
const draftOperation = fc.record({
  op: fc.constantFrom('add', 'remove', 'replace', 'move', 'copy'),
  path: fc.nat(),
  from: fc.nat(),
  value: valueText,
  spaces: fc.tuple(space, space)
})
type Draft = typeof draftOperation extends fc.Arbitrary<infer T> ? T : never

const pick = (paths: string[][], choice: number): string[] => paths[choice % paths.length] as string[]

function operationOf ({ op, path, from, value, spaces: [a, b] }: Draft, root: Tree): {
  json: string
  reference: ReferenceOperation
} {
  const paths = pathsOf(root)
  const operation = { op, path: pick(paths, path), from: pick(paths, from), value: parseTree(value) } as const
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
): { patch: string, expected?: Tree, failed?: string } {
  let root = parseTree(document)
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
    fc.property(documentText, fc.array(draftOperation, { maxLength: 6 }), (document, drafts) => {
      const { patch, expected, failed } = patchBoth(document, drafts)
      if (expected === undefined) {
        const { status, messages } = refusalOf(() => applyJsonPatch(document, patch, LIMITS))
        return status === 422 && messages.length === 1 && messages[0]?.startsWith(failed as string)
      }
      applied++
      const result = applyJsonPatch(document, patch, LIMITS)
      JSON.parse(result)
      return isDeepStrictEqual(parseTree(result), expected)
    }),
    { numRuns: 1500 }
  )
  if (applied < 200) throw new Error(`only ${applied} patches could be applied`)
})

t.test('a merged text says what merging the parsed document says', async () => {
  fc.assert(
    fc.property(documentText, documentText, (document, patch) => {
      let expected: Tree
      try {
        expected = mergeReference(parseTree(document), parseTree(patch))
      } catch (error) {
        if (!(error instanceof ReferenceError)) throw error
        return refusalOf(() => applyMergePatch(document, patch, LIMITS)).status === 422
      }
      const result = applyMergePatch(document, patch, LIMITS)
      JSON.parse(result)
      return isDeepStrictEqual(parseTree(result), expected)
    }),
    { numRuns: 1500 }
  )
})

/** The text without white space outside of strings. */
const compact = (json: string): string =>
  json.replaceAll(/("(?:[^"\\]|\\.)*")|[ \t\r\n]+/g, (_all, string?: string) => string ?? '')

/** The ends of two texts that are equal, without overlap. */
function commonEnds (a: string, b: string): { prefix: number, suffix: number } {
  const length = Math.min(a.length, b.length)
  let prefix = 0
  while (prefix < length && a[prefix] === b[prefix]) prefix++
  let suffix = 0
  while (suffix < length - prefix && a.at(-1 - suffix) === b.at(-1 - suffix)) suffix++
  return { prefix, suffix }
}

interface Place {
  readonly path: string[]
  readonly node: JsonNode
  /** Where its member starts. */
  readonly start: number
}

const placesIn = (node: JsonNode, path: string[], start = node.start): Place[] => [
  { path, node, start },
  ...childrenOf(node).flatMap(([name, child, start]) => placesIn(child, [...path, name], start))
]

function childrenOf (node: JsonNode): (readonly [name: string, child: JsonNode, start: number])[] {
  if (node.type === 'array') {
    return node.elements.map((element, index) => [String(index), element, element.start] as const)
  }
  if (node.type !== 'object') return []
  return node.members.map(({ name, value, nameStart }) => [name, value, nameStart] as const)
}

/** A document, and a value in it that isn't the whole one. */
const documentAndPlace = fc.tuple(documentText, fc.nat()).map(([document, choice]) => {
  const [, ...places] = placesIn(readJson(document), [])
  return { document, place: places[choice % Math.max(1, places.length)] }
})

/** Applies one operation; undefined if the path leads through a name that occurs more than once. */
function applyOne (document: string, operation: object): string | undefined {
  try {
    return applyJsonPatch(document, JSON.stringify([operation]), LIMITS)
  } catch (error) {
    if ((error as Error).message.includes('more than once')) return undefined
    throw error
  }
}

t.test('replace changes exactly the bytes of the value', async () => {
  fc.assert(
    fc.property(documentAndPlace, ({ document, place }) => {
      if (place === undefined) return true
      const result = applyOne(document, { op: 'replace', path: formatPointer(place.path), value: 'new' })
      return result === undefined ||
        result === `${document.slice(0, place.node.start)}"new"${document.slice(place.node.end)}`
    }),
    { numRuns: 1500 }
  )
})

t.test('remove takes one piece out: the member, one comma and white space', async () => {
  fc.assert(
    fc.property(documentAndPlace, ({ document, place }) => {
      if (place === undefined) return true
      const result = applyOne(document, { op: 'remove', path: formatPointer(place.path) })
      if (result === undefined) return true
      const { prefix, suffix } = commonEnds(document, result)
      const { start, node: { end } } = place
      const isAlone = /[[{]\s*$/.test(document.slice(0, start)) && /^\s*[\]}]/.test(document.slice(end))
      const removed = compact(document.slice(start, end)).length + (isAlone ? 0 : 1)
      return prefix + suffix === result.length &&
        compact(document).length - compact(result).length === removed
    }),
    { numRuns: 1500 }
  )
})

t.test('add puts one piece in: the member, one comma and white space', async () => {
  fc.assert(
    fc.property(documentText, fc.nat(), fc.nat(), (document, choice, index) => {
      const containers = placesIn(readJson(document), [])
        .filter(({ node }) => node.type === 'array' || node.type === 'object')
      const { path, node } = containers[choice % containers.length] as Place
      const count = childrenOf(node).length
      const isArray = node.type === 'array'
      const name = isArray ? String(index % (count + 1)) : 'a name that is new'
      const result = applyOne(document, { op: 'add', path: formatPointer([...path, name]), value: 'new' })
      if (result === undefined) return true
      const { prefix, suffix } = commonEnds(document, result)
      const added = (isArray ? '"new"' : `"${name}":"new"`).length + (count === 0 ? 0 : 1)
      return prefix + suffix === document.length &&
        compact(result).length - compact(document).length === added
    }),
    { numRuns: 1500 }
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
    { numRuns: 1500 }
  )
})
