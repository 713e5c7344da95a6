import type { JsonText, Members } from './json-text.ts'
import { DUPLICATE, MISSING } from './name-index.ts'

// Values that can be changed without a change of any other byte. A node is a slice of a text, or a container
// that keeps the slices of its unchanged members. Nodes are immutable, so a copy costs nothing.

export type JsonNode = JsonSlice | EditedContainer

/** A value as it stands in a text. */
export class JsonSlice {
  readonly text: JsonText
  readonly id: number

  constructor (text: JsonText, id: number) {
    this.text = text
    this.id = id
  }

  /** In bytes. */
  get size (): number {
    return this.text.end(this.id) - this.text.start(this.id)
  }

  /** Nested objects and arrays: 0 for a string, 1 for a flat object. */
  get levels (): number {
    return this.text.levels(this.id)
  }

  get firstByte (): number {
    return this.text.firstByte(this.id)
  }

  /** The original members of a container. */
  get members (): Members {
    return this.text.members(this.id)
  }

  get parts (): readonly Part[] {
    return [{ from: 0, to: this.members.count }]
  }

  /** Copies the bytes of the value. @returns the place after them */
  write (target: Buffer, at: number): number {
    return at + this.text.bytes.copy(target, at, this.text.start(this.id), this.text.end(this.id))
  }
}

/** Original members that follow each other. */
interface Run {
  readonly from: number
  readonly to: number
}

/** A member that is new, or has a new value. */
interface Item {
  /** The comma before it, with the white space around it. Not used for the first member. */
  readonly separator: Buffer
  /** The name and the colon of a member; empty for an element. */
  readonly label: Buffer
  readonly name: string | undefined
  readonly value: JsonNode
}

type Part = Run | Item

const isRun = (part: Part): part is Run => !('value' in part)
const lengthOf = (part: Part): number => isRun(part) ? part.to - part.from : 1

/** A change of one member. Positions are those before all changes. */
export type Change =
  | { readonly kind: 'replace', readonly position: number, readonly value: JsonNode }
  | { readonly kind: 'remove', readonly position: number }
  | { readonly kind: 'insert', readonly position: number, readonly value: JsonNode, readonly name?: NewName }

/** The name of a new member, and its JSON text with the quotes. */
export interface NewName {
  readonly name: string
  readonly json: Buffer
}

/** An object or array with changed members. */
export class EditedContainer {
  readonly members: Members
  readonly parts: readonly Part[]
  readonly firstByte: number
  readonly #lastByte: number
  /** In bytes. */
  readonly size: number
  #levels: number | undefined

  constructor (original: JsonNode, parts: readonly Part[]) {
    this.members = original.members
    this.parts = parts
    this.firstByte = original.firstByte
    this.#lastByte = this.firstByte + 2 // ] and } come two after [ and {
    this.size = this.#measure()
  }

  /** Nested objects and arrays, at least 1. */
  get levels (): number {
    this.#levels ??= 1 + this.parts.reduce((levels, part) => Math.max(levels, this.#levelsOf(part)), 0)
    return this.#levels
  }

  /** Copies the bytes of the value. @returns the place after them */
  write (target: Buffer, start: number): number {
    let at = start
    const put = (bytes: Buffer): void => {
      at += bytes.copy(target, at)
    }
    const { members, parts } = this
    target[at++] = this.firstByte
    if (parts.length > 0) put(members.head)
    for (const [index, part] of parts.entries()) {
      if (index > 0) put(this.#separatorOf(part))
      if (isRun(part)) {
        put(members.text.bytes.subarray(members.start(part.from), members.end(part.to - 1)))
      } else {
        put(part.label)
        at = part.value.write(target, at)
      }
    }
    if (parts.length > 0) put(members.tail)
    target[at++] = this.#lastByte
    return at
  }

  #measure (): number {
    const { members, parts } = this
    if (parts.length === 0) return 2
    let size = 2 + members.head.length + members.tail.length
    for (const [index, part] of parts.entries()) {
      if (index > 0) size += this.#separatorOf(part).length
      size += isRun(part) ? members.end(part.to - 1) - members.start(part.from)
        : part.label.length + part.value.size
    }
    return size
  }

  #separatorOf (part: Part): Buffer {
    return isRun(part) ? this.members.separator(part.from) : part.separator
  }

  #levelsOf (part: Part): number {
    return isRun(part) ? this.members.levels(part.from, part.to) : part.value.levels
  }
}

/** The number of members or elements of a container. */
export function countOf (container: JsonNode): number {
  let count = 0
  for (const part of container.parts) count += lengthOf(part)
  return count
}

/** The value at a position, which must exist. */
export function childAt (container: JsonNode, position: number): JsonNode {
  let first = 0
  for (const part of container.parts) {
    const length = lengthOf(part)
    if (position < first + length) {
      if (!isRun(part)) return part.value
      const { members } = container
      return new JsonSlice(members.text, members.valueId(part.from + position - first))
    }
    first += length
  }
  throw new RangeError(`No member ${position}`)
}

/** @returns the position of a member of an object, MISSING or DUPLICATE */
export function positionOf (object: JsonNode, name: string): number {
  const original = object.members.index.positionOf(name)
  if (original === DUPLICATE) return DUPLICATE
  let first = 0
  for (const part of object.parts) {
    if (!isRun(part)) {
      if (part.name === name) return first
    } else if (original >= part.from && original < part.to) return first + original - part.from
    first += lengthOf(part)
  }
  return MISSING
}

/**
 * Returns a container with changed members.
 *
 * @param changes in the order of their positions
 */
export function edit (container: JsonNode, changes: readonly Change[]): EditedContainer {
  return new EditedContainer(container, new Editor(container).apply(changes))
}

/** Copies the parts of a container up to a change, makes it, and so on. */
class Editor {
  readonly #members: Members
  readonly #parts: Part[]
  readonly #edited: Part[] = []
  /** The next part, and the position of its first member. */
  #next = 0
  #position = 0

  constructor (container: JsonNode) {
    this.#members = container.members
    this.#parts = [...container.parts].filter((part) => lengthOf(part) > 0)
  }

  apply (changes: readonly Change[]): Part[] {
    for (const change of changes) {
      this.#copyUntil(change.position)
      if (change.kind === 'insert') this.#insert(change.value, change.name)
      else this.#change(change.kind === 'replace' ? change.value : undefined)
    }
    this.#copyUntil(Infinity)
    return this.#edited
  }

  /** Copies parts, and splits a run in which the position lies. */
  #copyUntil (position: number): void {
    for (let part = this.#parts[this.#next]; part !== undefined; part = this.#parts[this.#next]) {
      const length = lengthOf(part)
      if (position >= this.#position + length) {
        this.#edited.push(part)
        this.#next++
        this.#position += length
        continue
      }
      const split = position - this.#position
      if (isRun(part) && split > 0) {
        this.#edited.push({ from: part.from, to: part.from + split })
        this.#parts[this.#next] = { from: part.from + split, to: part.to }
        this.#position = position
      }
      return
    }
  }

  #insert (value: JsonNode, name: NewName | undefined): void {
    // Like the separator that is there; at the end, like the last one.
    const neighbour = this.#parts[this.#next] ?? this.#edited.at(-1)
    const last = this.#members.count - 1
    let separator = this.#members.separator(Math.max(0, last))
    if (neighbour !== undefined) {
      separator = !isRun(neighbour) ? neighbour.separator
        : this.#members.separator(this.#next < this.#parts.length ? neighbour.from : neighbour.to - 1)
    }
    const label = name === undefined ? NO_LABEL : Buffer.concat([name.json, this.#members.colon])
    this.#edited.push({ separator, label, name: name?.name, value })
  }

  /** Replaces the value of the next member, or removes it. */
  #change (value: JsonNode | undefined): void {
    const part = this.#parts[this.#next] as Part
    const members = this.#members
    if (value !== undefined) {
      this.#edited.push(isRun(part) ? {
        separator: members.separator(part.from),
        label: members.label(part.from),
        name: members.isObject ? members.name(part.from) : undefined,
        value
      } : { ...part, value })
    }
    this.#position++
    if (isRun(part) && part.to > part.from + 1) this.#parts[this.#next] = { from: part.from + 1, to: part.to }
    else this.#next++
  }
}

const NO_LABEL = Buffer.alloc(0)
