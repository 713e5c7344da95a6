import { parseNumber, type Decimal } from './json-number.ts'
import { decodeString, NameIndex, type Names } from './name-index.ts'
import { RangeMaximum } from './range-maximum.ts'
import { FIELDS, scanValues, type Style } from './value-table.ts'

// The values of a JSON text and where they stand in it. The text is read once; no value is built.

const COMMA = 0x2c
const OPEN_BRACE = 0x7b

/**
 * A JSON text in UTF-8. Its values have ids in the order in which they begin, names of members included: the
 * value of a member has the id after that of its name, and the root has 0.
 */
export class JsonText {
  readonly bytes: Buffer
  readonly style: Style
  readonly #values: Int32Array
  // Each is made once: a patch may ask for it a thousand times.
  readonly #members = new Map<number, Members>()
  readonly #numbers = new Map<number, Decimal>()

  /** @param json valid JSON */
  constructor (json: string) {
    this.bytes = Buffer.from(json)
    const { values, style } = scanValues(this.bytes)
    this.#values = values
    this.style = style
  }

  /** The first byte of a value. */
  start (id: number): number {
    return this.#values[FIELDS * id] as number
  }

  /** The byte after the last one of a value. */
  end (id: number): number {
    return this.#values[FIELDS * id + 1] as number
  }

  /** The id of the next value that doesn't lie in this one. */
  after (id: number): number {
    return this.#values[FIELDS * id + 2] as number
  }

  /** Nested objects and arrays: 0 for a string, 1 for a flat object. */
  levels (id: number): number {
    return this.#values[FIELDS * id + 3] as number
  }

  firstByte (id: number): number {
    return this.bytes[this.start(id)] as number
  }

  /** A string, decoded. */
  string (id: number): string {
    return decodeString(this.bytes, this.start(id) + 1, this.end(id) - 1)
  }

  number (id: number): Decimal {
    const known = this.#numbers.get(id) ?? parseNumber(this.bytes.subarray(this.start(id), this.end(id)))
    this.#numbers.set(id, known)
    return known
  }

  /** The members of an object or the elements of an array. */
  members (id: number): Members {
    const known = this.#members.get(id) ?? new Members(this, id)
    this.#members.set(id, known)
    return known
  }
}

/** The members of an object or the elements of an array, by their positions from 0. */
export class Members implements Names {
  readonly text: JsonText
  readonly isObject: boolean
  readonly #id: number
  /** The ids of elements, or of the names of members. */
  readonly #ids: Int32Array
  #index: NameIndex | undefined
  #levels: RangeMaximum | undefined

  constructor (text: JsonText, id: number) {
    this.text = text
    this.isObject = text.firstByte(id) === OPEN_BRACE
    this.#id = id
    let count = 0
    const end = text.after(id)
    const next = (child: number): number => text.after(this.isObject ? child + 1 : child)
    for (let child = id + 1; child < end; child = next(child)) count++
    this.#ids = new Int32Array(count)
    for (let child = id + 1, at = 0; child < end; child = next(child)) this.#ids[at++] = child
  }

  get count (): number {
    return this.#ids.length
  }

  get bytes (): Buffer {
    return this.text.bytes
  }

  nameStart (position: number): number {
    return this.start(position) + 1
  }

  nameEnd (position: number): number {
    return this.text.end(this.#ids[position] as number) - 1
  }

  /** For objects only. */
  get index (): NameIndex {
    this.#index ??= new NameIndex(this)
    return this.#index
  }

  /** The id of a value. */
  valueId (position: number): number {
    return this.#ids[position] as number + (this.isObject ? 1 : 0)
  }

  /** The most levels of a value from one position up to, but without, another one. */
  levels (from: number, to: number): number {
    this.#levels ??= new RangeMaximum(this.count, (position) => this.text.levels(this.valueId(position)))
    return this.#levels.find(from, to)
  }

  /** The first byte of a member, which is that of its name. */
  start (position: number): number {
    return this.text.start(this.#ids[position] as number)
  }

  end (position: number): number {
    return this.text.end(this.valueId(position))
  }

  name (position: number): string {
    return this.text.string(this.#ids[position] as number)
  }

  /** The name of a member as it is written, with its quotes. */
  nameText (position: number): Buffer {
    return this.text.bytes.subarray(this.start(position), this.text.end(this.#ids[position] as number))
  }

  /** The text of a member before its value: the name and the colon. Empty for an element. */
  label (position: number): Buffer {
    return this.text.bytes.subarray(this.start(position), this.text.start(this.valueId(position)))
  }

  /** The white space after the opening bracket. */
  get head (): Buffer {
    const open = this.text.start(this.#id) + 1
    return this.text.bytes.subarray(open, this.count === 0 ? this.text.end(this.#id) - 1 : this.start(0))
  }

  /** The white space before the closing bracket. */
  get tail (): Buffer {
    const close = this.text.end(this.#id) - 1
    return this.count === 0 ? this.head : this.text.bytes.subarray(this.end(this.count - 1), close)
  }

  /** The comma before a member, with its white space. The first member gets one like the others'. */
  separator (position: number): Buffer {
    if (position > 0) return this.text.bytes.subarray(this.end(position - 1), this.start(position))
    if (this.count > 1) return this.separator(1)
    const { head, text: { style } } = this
    return Buffer.concat([Buffer.of(COMMA), head.length > 0 ? head : style.comma])
  }

  /** The colon of a new member, with the white space around it. */
  get colon (): Buffer {
    const last = this.count - 1
    if (last < 0) return this.text.style.colon
    const name = this.#ids[last] as number
    return this.text.bytes.subarray(this.text.end(name), this.text.start(name + 1))
  }
}
