import { applyJsonPatch, byteLength, readJson } from '#json-text'
import { invert, rearrange, type Edit, type Rearrangement } from './edits.ts'
import { fieldAt, findById, readField, type Field, type Path } from './field.ts'

/** What a person can undo. */
interface UndoStep {
  readonly before: string
  readonly after: string
  /** Undefined if the whole text was replaced. */
  readonly edit: Edit | undefined
  /** Whether the next edit of the same value becomes a part of this step. */
  isOpen: boolean
}

/** What is typed and can't be stored. */
export interface Draft {
  readonly text: string
  /** A sentence that says what to do. */
  readonly message: string
}

/** The most steps that can be undone, and the most characters in them. */
const MAX_STEPS = 200
const MAX_CHARACTERS = 20_000_000
/** What the service takes as one patch. */
const MAX_OPERATIONS = 1000
const MAX_PATCH_BYTES = 64 * 1024
/** The service checks its limits when the text is saved. */
const LIMITS = { maxBytes: Infinity, maxLevels: 100 }

/**
 * A document that is changed field by field. The text is the truth: each edit is a patch of it, by the same
 * code as the service's, and the fields are read from the result.
 */
export class FieldsModel {
  #text: string
  #saved: string
  #root: Field
  #steps: UndoStep[] = []
  /** How many of the steps are done. */
  #position = 0
  /** The position at which the text was saved; undefined if undoing doesn't lead there. */
  #savedPosition: number | undefined = 0
  readonly #drafts = new Map<number, Draft>()
  readonly #listeners = new Set<() => void>()
  readonly #onChange: (isChanged: boolean) => void

  /** @param text a document that fields can show. It counts as saved */
  constructor (text: string, onChange: (isChanged: boolean) => void) {
    this.#text = this.#saved = text
    this.#root = readField(text, readJson(text))
    this.#onChange = onChange
  }

  get root (): Field {
    return this.#root
  }

  get canUndo (): boolean {
    return this.#drafts.size > 0 || this.#position > 0
  }

  get canRedo (): boolean {
    return this.#position < this.#steps.length
  }

  /** The path of the field that was changed last; undefined if none was. */
  get lastChange (): Path | undefined {
    return this.#steps.slice(0, this.#position).findLast(({ edit }) => edit !== undefined)?.edit?.path
  }

  get isChanged (): boolean {
    return this.#drafts.size > 0 || this.#text !== this.#saved
  }

  getText (): string {
    return this.#text
  }

  /** Replaces the whole text. It can be undone. */
  setText (text: string): void {
    this.#drafts.clear()
    this.#do(text, undefined)
    this.#changed()
  }

  /** Takes this text as the one that was saved. */
  markSaved (text: string): void {
    this.#saved = text
    this.endStep()
    const position = [...this.#steps, undefined].findLastIndex((step, index) =>
      index <= this.#position && (step?.before ?? this.#text) === text
    )
    this.#savedPosition = position === -1 ? undefined : position
    this.#changed()
  }

  /** Changes the document. Edits of one value are one step, until `endStep`. */
  edit (edit: Edit): void {
    const text = applyJsonPatch(this.#text, `[${edit.operation}]`, LIMITS)
    const { rearrangement } = edit
    const last = this.canRedo ? undefined : this.#steps.at(-1)
    const isSame = rearrangement === undefined && last?.isOpen === true &&
      last.edit?.rearrangement === undefined && last.edit?.path.join('\0') === edit.path.join('\0')
    if (isSame) {
      this.#steps.pop()
      this.#position--
      this.#text = last.before
    }
    this.#do(text, edit, rearrangement)
    this.#changed()
  }

  /** Makes the next edit a step of its own. */
  endStep (): void {
    const last = this.#steps.at(-1)
    if (last !== undefined) last.isOpen = false
  }

  /** Takes the last step back. Returns the path of what it has changed, or undefined for all of it. */
  undo (): Path | undefined {
    const problem = this.findProblem()
    if (problem !== undefined) {
      this.#drafts.clear()
      this.#changed()
      return problem.path
    }
    const step = this.#steps[this.#position - 1]
    if (step === undefined) return undefined
    this.#position--
    this.#go(step.before, step.edit?.rearrangement && invert(step.edit.rearrangement))
    return step.edit?.path
  }

  /** Does again what was undone. Returns the path of what it has changed, or undefined for all of it. */
  redo (): Path | undefined {
    const step = this.#steps[this.#position]
    if (step === undefined) return undefined
    this.#position++
    this.#go(step.after, step.edit?.rearrangement)
    return step.edit?.path
  }

  /**
   * Returns a JSON Patch that makes the text of the one that was saved; undefined if there is none that the
   * service takes.
   */
  getPatch (): string | undefined {
    const from = this.#savedPosition
    if (from === undefined || from > this.#position) return undefined
    const edits = this.#steps.slice(from, this.#position).map(({ edit }) => edit)
    if (edits.length === 0 || edits.length > MAX_OPERATIONS) return undefined
    const operations: string[] = []
    for (const [index, edit] of edits.entries()) {
      if (edit === undefined) return undefined
      const next = edits[index + 1]
      const isReplaced = edit.rearrangement === undefined && next?.rearrangement === undefined &&
        next?.path.join('\0') === edit.path.join('\0')
      if (!isReplaced) operations.push(edit.operation)
    }
    const patch = `[${operations.join(',')}]`
    return byteLength(patch) > MAX_PATCH_BYTES ? undefined : patch
  }

  /** Keeps what is typed in a field and can't be stored, or forgets it. */
  setDraft (id: number, draft: Draft | undefined): void {
    if (draft === undefined) this.#drafts.delete(id)
    else this.#drafts.set(id, draft)
    this.#changed()
  }

  getDraft (id: number): Draft | undefined {
    return this.#drafts.get(id)
  }

  /** Returns the first field whose text can't be stored; undefined if there is none. */
  findProblem (): { readonly path: Path, readonly message: string } | undefined {
    for (const [id, { message }] of this.#drafts) {
      const path = findById(this.#root, id)?.path
      if (path !== undefined) return { path, message }
    }
    return undefined
  }

  /** Calls `listener` after each change. Returns a function that ends this. */
  subscribe (listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #do (after: string, edit: Edit | undefined, rearrangement?: Rearrangement): void {
    const before = this.#text
    if (this.#savedPosition !== undefined && this.#savedPosition > this.#position) {
      this.#savedPosition = undefined
    }
    if (after !== before) {
      this.#steps = [...this.#steps.slice(0, this.#position), { before, after, edit, isOpen: true }]
      this.#position++
      this.#forgetOldSteps()
    }
    this.#go(after, rearrangement)
  }

  #forgetOldSteps (): void {
    const tooMany = Math.max(
      this.#steps.length - MAX_STEPS,
      this.#steps.length - Math.max(1, Math.floor(MAX_CHARACTERS / (this.#text.length + 1)))
    )
    if (tooMany <= 0) return
    this.#steps.splice(0, tooMany)
    this.#position -= tooMany
    const saved = (this.#savedPosition ?? -1) - tooMany
    this.#savedPosition = saved < 0 ? undefined : saved
  }

  #go (text: string, rearrangement: Rearrangement | undefined): void {
    const before = rearrangement === undefined ? this.#root : rearrange(this.#root, rearrangement)
    this.#text = text
    this.#root = readField(text, readJson(text), before)
    for (const id of this.#drafts.keys()) if (findById(this.#root, id) === undefined) this.#drafts.delete(id)
    this.#changed()
  }

  #changed (): void {
    this.#onChange(this.isChanged)
    for (const listener of [...this.#listeners]) listener()
  }
}

/** Returns the field that has the focus after a change: the one at the path, or its nearest neighbour. */
export function nearestPath (root: Field, path: Path): Path {
  if (fieldAt(root, path) !== undefined) return path
  const parent = nearestPath(root, path.slice(0, -1))
  const field = fieldAt(root, parent)
  return field?.type === 'list' && field.entries.length > 0 ? [...parent, field.entries.length - 1] : parent
}
