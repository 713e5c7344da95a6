import { readJson, type JsonMember, type JsonNode as Place, type JsonObject } from '../text/tree.ts'

// Values that can be changed without a change of any other character.

/** The name of a member, and its JSON text with the quotes. */
export interface Name {
  readonly name: string
  readonly json: string
}

/** A member or element whose value is new or was looked at. */
interface Item {
  /** The comma before it, with the white space around it. Not written before the first one. */
  readonly separator: string
  /** Undefined for an element. */
  readonly name: Name | undefined
  /** The colon with the white space around it; empty for an element. */
  readonly colon: string
  readonly value: JsonNode
}

/** An index, or the name of a member. */
export type Key = string | number

/** A value of a JSON text. It writes what was not changed as it stands there. */
export class JsonNode {
  readonly #source: string
  /** Before all changes. */
  readonly #place: Place
  /**
   * What an object or array contains, once it was looked at. A number is the place of an original member or
   * element. Of members with the same name, all but the first have numbers as keys.
   */
  #items: Map<Key, Item | number> | (Item | number)[] | undefined
  readonly #duplicates = new Set<string>()
  #levels: number | undefined
  /** Another node contains it, too, so it must not be changed. */
  #isShared = false

  private constructor (source: string, place: Place) {
    this.#source = source
    this.#place = place
  }

  /** @param text valid JSON */
  static parse (text: string): JsonNode {
    return new JsonNode(text, readJson(text))
  }

  get type (): Place['type'] {
    return this.#place.type
  }

  get isContainer (): boolean {
    return this.type === 'object' || this.type === 'array'
  }

  /** The original text of the value. */
  get text (): string {
    return this.#source.slice(this.#place.start, this.#place.end)
  }

  /** The text around the original value. */
  get surroundings (): [before: string, after: string] {
    return [this.#source.slice(0, this.#place.start), this.#source.slice(this.#place.end)]
  }

  /** Nested objects and arrays: 0 for a string, 1 for a flat object. */
  get levels (): number {
    if (this.#items === undefined) return this.#place.levels
    if (this.#levels === undefined) {
      let levels = 0
      for (const item of this.#items.values()) {
        levels = Math.max(levels, typeof item === 'number' ? this.#valueAt(item).levels : item.value.levels)
      }
      this.#levels = levels + 1
    }
    return this.#levels
  }

  /** Number of members or elements. */
  get count (): number {
    const items = this.#open()
    return Array.isArray(items) ? items.length : items.size
  }

  /** The names of an object that has no name more than once. */
  get names (): string[] {
    return [...this.#open().keys()] as string[]
  }

  /** A name that an object has more than once; undefined if there is none. */
  get duplicate (): string | undefined {
    this.#open()
    const [first] = this.#duplicates
    return first
  }

  has (key: Key): boolean {
    const items = this.#open()
    return Array.isArray(items) ? (key as number) < items.length : items.has(key)
  }

  isDuplicate (name: string): boolean {
    this.#open()
    return this.#duplicates.has(name)
  }

  /** The value of a member or element, which must exist. */
  get (key: Key): JsonNode {
    return this.#itemAt(key).value
  }

  nameOf (key: string): Name {
    return this.#itemAt(key).name as Name
  }

  /** The value of a member or element, which may be changed. */
  getOwn (key: Key): JsonNode {
    const value = this.get(key).own()
    this.set(key, value)
    return value
  }

  /** Returns a node that may be changed: this one, unless it is shared. */
  own (): JsonNode {
    if (!this.#isShared) return this
    const copy = new JsonNode(this.#source, this.#place)
    copy.#items = Array.isArray(this.#items) ? [...this.#items] : this.#items && new Map(this.#items)
    for (const item of copy.#items?.values() ?? []) if (typeof item !== 'number') item.value.share()
    for (const name of this.#duplicates) copy.#duplicates.add(name)
    return copy
  }

  /** Returns the node, for a second place in the document. */
  share (): JsonNode {
    this.#isShared = true
    return this
  }

  /** Gives another value to a member or element, which must exist. */
  set (key: Key, value: JsonNode): void {
    this.#put(key, { ...this.#itemAt(key), value })
  }

  delete (key: Key): void {
    this.#levels = undefined
    const items = this.#open()
    if (Array.isArray(items)) items.splice(key as number, 1)
    else items.delete(key)
  }

  /** Inserts an element into an array. */
  insert (index: number, value: JsonNode): void {
    const items = this.#open() as (Item | number)[]
    const separator = this.#separatorLike(items[index] ?? items.at(-1))
    this.#levels = undefined
    items.splice(index, 0, { separator, name: undefined, colon: '', value })
  }

  /** Adds a new member to an object. */
  add (name: Name, value: JsonNode): void {
    const separator = this.#separatorLike(undefined)
    this.#put(name.name, { separator, name, colon: this.#colon, value })
  }

  /** Passes the text of the value, with its changes, to `write` piece by piece. */
  write (write: (piece: string) => void): void {
    const items = this.#items
    if (items === undefined) return write(this.text)
    const text = this.#source
    const [first, last] = this.#bounds
    const isEmpty = this.count === 0
    // The piece of the original text that is next. Originals that follow each other are one piece.
    let start = this.#place.start
    let end = isEmpty ? start + 1 : first
    let previous: Item | number | undefined
    for (const item of items.values()) {
      if (typeof item === 'number' && item - 1 === previous) end = this.#valueAt(item).end
      else {
        write(text.slice(start, end))
        if (previous !== undefined) write(this.#separatorLike(item))
        if (typeof item === 'number') [start, end] = [this.#startOf(item), this.#valueAt(item).end]
        else {
          write((item.name?.json ?? '') + item.colon)
          item.value.write(write)
          start = end
        }
      }
      previous = item
    }
    write(text.slice(start, end))
    write(text.slice(isEmpty ? this.#place.end - 1 : last, this.#place.end))
  }

  /** The members of an object or the elements of an array, to be looked at or changed. */
  #open (): Map<Key, Item | number> | (Item | number)[] {
    if (this.#items !== undefined) return this.#items
    const place = this.#place
    if (place.type === 'array') {
      this.#items = place.elements.map((_element, index) => index)
      return this.#items
    }
    if (place.type !== 'object') return []
    const members = new Map<Key, Item | number>()
    this.#items = members
    for (const [index, { name }] of place.members.entries()) {
      if (members.has(name)) this.#duplicates.add(name)
      members.set(members.has(name) ? index : name, index)
    }
    return members
  }

  #itemAt (key: Key): Item {
    const items = this.#open()
    const item = (Array.isArray(items) ? items[key as number] : items.get(key)) as Item | number
    if (typeof item !== 'number') return item
    const value = new JsonNode(this.#source, this.#valueAt(item))
    const opened = { separator: this.#separatorOf(item), ...this.#labelOf(item), value }
    this.#put(key, opened)
    return opened
  }

  #put (key: Key, item: Item): void {
    this.#levels = undefined
    const items = this.#open()
    if (Array.isArray(items)) items[key as number] = item
    else items.set(key, item)
  }

  get #originals (): readonly (JsonMember | Place)[] {
    const place = this.#place
    return place.type === 'object' ? place.members : place.type === 'array' ? place.elements : []
  }

  #memberAt (original: number): JsonMember {
    return (this.#place as JsonObject).members[original] as JsonMember
  }

  #valueAt (original: number): Place {
    const place = this.#place
    return place.type === 'array' ? place.elements[original] as Place : this.#memberAt(original).value
  }

  #startOf (original: number): number {
    return this.type === 'object' ? this.#memberAt(original).nameStart : this.#valueAt(original).start
  }

  /** Where the first original member or element starts, and where the last one ends. */
  get #bounds (): [start: number, end: number] {
    const { length } = this.#originals
    const { start, end } = this.#place
    return length === 0 ? [end - 1, start + 1] : [this.#startOf(0), this.#valueAt(length - 1).end]
  }

  #labelOf (original: number): Pick<Item, 'name' | 'colon'> {
    if (this.type !== 'object') return { name: undefined, colon: '' }
    const { name, nameStart, nameEnd, value } = this.#memberAt(original)
    const text = this.#source
    return { name: { name, json: text.slice(nameStart, nameEnd) }, colon: text.slice(nameEnd, value.start) }
  }

  /** The comma before an original, with its white space. The first one gets one like the others'. */
  #separatorOf (original: number): string {
    if (original > 0) return this.#source.slice(this.#valueAt(original - 1).end, this.#startOf(original))
    if (this.#originals.length > 1) return this.#separatorOf(1)
    const space = this.#source.slice(this.#place.start + 1, this.#bounds[0])
    return ',' + (space === '' ? this.#colon.replace(/^.*:/s, '') : space)
  }

  /** A new item imitates the white space of a neighbour, or else of the last original one. */
  #separatorLike (neighbour: Item | number | undefined): string {
    if (typeof neighbour === 'object') return neighbour.separator
    return this.#separatorOf(neighbour ?? Math.max(0, this.#originals.length - 1))
  }

  /** The colon of the last original member, with its white space. */
  get #colon (): string {
    const last = this.#originals.length - 1
    return last < 0 ? ':' : this.#labelOf(last).colon
  }
}
