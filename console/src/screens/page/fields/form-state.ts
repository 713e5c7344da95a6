import { createContext } from 'preact'
import { useContext, useEffect, useState } from 'preact/hooks'
import { createStore, useStore, type Store } from '../../../core/store.ts'
import { findById, fieldAt, type Path } from '../../../fields/field.ts'
import type { FieldsModel } from '../../../fields/fields-model.ts'
import type { AssetFinder } from './asset-finder.ts'

/** What all fields of a form share. */
export interface FormState {
  readonly model: FieldsModel
  readonly assets: AssetFinder
  /** The ids of the entries that are unfolded. */
  readonly open: Store<ReadonlySet<number>>
  /** Descriptions of pictures that were replaced since, by the id of the field. */
  readonly outdated: Store<ReadonlyMap<number, OutdatedDescription>>
  /** Whether fields can be added, renamed and removed. */
  readonly isArranging: Store<boolean>
}

/** A description, and the picture that has taken the place of the one that it describes. */
interface OutdatedDescription {
  readonly json: string
  readonly pictureId: number
  readonly pictureJson: string
}

export const FormContext = createContext<FormState | undefined>(undefined)

export function createFormState (model: FieldsModel, assets: AssetFinder): FormState {
  return {
    model,
    assets,
    open: createStore<ReadonlySet<number>>(new Set()),
    outdated: createStore<ReadonlyMap<number, OutdatedDescription>>(new Map()),
    isArranging: createStore(false)
  }
}

/** Returns the form of the field that is rendered. */
export function useForm (): FormState {
  const form = useContext(FormContext)
  if (form === undefined) throw new Error('There is no form')
  return form
}

export const useIsArranging = (): boolean => useStore(useForm().isArranging)

/** Returns whether an entry is unfolded. */
export function useIsOpen (id: number): boolean {
  const { open } = useForm()
  const [isOpen, setIsOpen] = useState(open.get().has(id))
  useEffect(() => {
    const update = () => setIsOpen(open.get().has(id))
    update()
    return open.subscribe(update)
  }, [id])
  return isOpen
}

export function setOpen ({ open }: FormState, ids: readonly number[], isOpen: boolean): void {
  const next = new Set(open.get())
  for (const id of ids) {
    if (isOpen) next.add(id)
    else next.delete(id)
  }
  open.set(next)
}

/** Renders a component again after each change of the document. */
export function useModel (model: FieldsModel): void {
  const [, setCount] = useState(0)
  useEffect(() => {
    const update = () => setCount((count) => count + 1)
    update() // it may have changed since the first rendering
    return model.subscribe(update)
  }, [model])
}

/** Returns the path of a field, which must be in the form. */
export function pathOf ({ model }: FormState, id: number): Path {
  const found = findById(model.root, id)
  if (found === undefined) throw new Error('This field is gone')
  return found.path
}

/** The id of the element that gets the focus for a field. */
export const focusId = (id: number): string => `field-${id}`

const CONTROLS = 'input, textarea, select, button'
/** About two seconds. */
const MAX_FRAMES = 120

/** By then a dialog that closes has given the focus back to its button. */
const KEPT_FRAMES = 5

/** Moves the focus as soon as its target is rendered, and no dialog keeps it. */
export function focusSoon (find: () => HTMLElement | null | undefined): void {
  let frames = 0
  let kept = 0
  const focus = () => {
    const element = find()
    const isKept = element && document.activeElement === element
    // The person is already writing elsewhere.
    if (!isKept && kept > 0 && document.activeElement?.matches('input, textarea') === true) return
    kept = isKept ? kept + 1 : 0
    if (kept === KEPT_FRAMES) return
    if (!isKept) {
      element?.focus({ preventScroll: true })
      element?.scrollIntoView({ block: 'nearest' })
      if (element && document.activeElement === element) kept = 1
    }
    if (++frames < MAX_FRAMES) requestAnimationFrame(focus)
  }
  // Not before elements that move have moved.
  requestAnimationFrame(() => requestAnimationFrame(focus))
}

/**
 * Unfolds what is around a field, and moves the focus there.
 *
 * @param isInside whether an entry is unfolded, too, and its first control gets the focus
 */
export function reveal (form: FormState, path: Path, isInside = false): void {
  const field = fieldAt(form.model.root, path)
  const found = field && findById(form.model.root, field.id)
  if (field === undefined || found === undefined) return
  setOpen(form, found.trail.slice(0, isInside ? undefined : -1).map(({ id }) => id), true)
  const id = focusId(field.id)
  const isContainer = field.type === 'group' || field.type === 'list'
  focusSoon(() =>
    isInside && isContainer
      ? document.getElementById(`${id}-body`)?.querySelector<HTMLElement>(CONTROLS)
      : document.getElementById(id)
  )
}
