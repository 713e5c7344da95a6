import { createPortal } from 'preact'
import { useEffect, useMemo } from 'preact/hooks'
import { Button } from '../../../components/button.tsx'
import { announce } from '../../../core/announcements.tsx'
import { useStore } from '../../../core/store.ts'
import { FieldsModel, nearestPath } from '../../../fields/fields-model.ts'
import { labelOf } from '../../../fields/labels.ts'
import { childrenOf, type Field, type Path } from '../../../fields/field.ts'
import type { FieldsView } from '../use-views.ts'
import { AssetFinder } from './asset-finder.ts'
import { FieldSearch } from './field-search.tsx'
import { createFormState, FormContext, reveal, setOpen, useModel, type FormState } from './form-state.ts'
import { Entries, Members } from './fields.tsx'
import './fields.css'

// Loaded when fields are shown: `await import('./fields/fields-form.tsx')`.

/**
 * Opens a document as a form.
 *
 * @param text that fields can show
 * @param onChange called after each change, with whether the text differs from the one that was saved
 */
export function openForm (
  text: string,
  onChange: (isChanged: boolean) => void
): { readonly form: FormState, readonly view: FieldsView } {
  const model = new FieldsModel(text, onChange)
  const form = createFormState(model, new AssetFinder())
  const view: FieldsView = {
    getText: () => model.getText(),
    setText: (text) => model.setText(text),
    markSaved: (text) => model.markSaved(text),
    focus () {
      const path = model.lastChange
      if (path !== undefined && document.activeElement?.closest('.fields') == null) {
        reveal(form, nearestPath(model.root, path))
      }
    },
    getPatch: () => model.getPatch(),
    hasProblem: () => model.findProblem() !== undefined,
    showProblem () {
      const problem = model.findProblem()
      if (problem === undefined) return undefined
      reveal(form, problem.path)
      return `${labelOf(nameOf(problem.path))}: ${problem.message}`
    }
  }
  return { form, view }
}

/** Returns the innermost name of a path; empty if it has none. */
const nameOf = (path: Path): string => path.findLast((step) => typeof step === 'string') ?? ''

interface FieldsFormProps {
  readonly form: FormState
  readonly isShown: boolean
  /** Whether nothing can be changed. */
  readonly isLocked: boolean
  /** The place of the buttons for the whole form. */
  readonly tools: Element | null
}

/** A document as a form. */
export function FieldsForm ({ form, isShown, isLocked, tools }: FieldsFormProps) {
  const { model } = form
  useModel(model)
  useUndoKeys(form, isShown && !isLocked)
  const isArranging = useStore(form.isArranging)
  const { root } = model
  useEffect(() => {
    // What is folded can't be unfolded then.
    if (isLocked) setOpen(form, idsOf(root), true)
  }, [isLocked, root])
  const fields = useMemo(() => (
    root.type === 'list' ? <Entries field={root} label='Entries' level={2} />
      : root.type === 'group' && <Members field={root} level={2} label='the page' />
  ), [root])
  return (
    <FormContext.Provider value={form}>
      <FieldSearch />
      <fieldset class='fields' disabled={isLocked}>
        {tools !== null && createPortal(
          <>
            <Button label='Undo' isDisabled={!model.canUndo} onClick={() => undo(form)}>
              <Arrow path='M4 4v4.5h4.5M4.3 8.5A6.5 6.5 0 1 1 5 14' />
              <span class='fields__tool'>Undo</span>
            </Button>
            <Button label='Redo' isDisabled={!model.canRedo} onClick={() => redo(form)}>
              <Arrow path='M16 4v4.5h-4.5M15.7 8.5A6.5 6.5 0 1 0 15 14' />
              <span class='fields__tool'>Redo</span>
            </Button>
          </>,
          tools
        )}
        {fields}
        <details class='fields__arrange'>
          <summary>For developers</summary>
          <p>
            The website finds each field by its name. Add, rename or remove fields only if the website knows
            about it.
          </p>
          <Button onClick={() => form.isArranging.set(!isArranging)}>
            {isArranging ? 'Done with adding and renaming' : 'Add, rename or remove fields'}
          </Button>
        </details>
      </fieldset>
    </FormContext.Provider>
  )
}

/** The ids of all fields in a field. */
const idsOf = (field: Field): number[] =>
  childrenOf(field).flatMap(([, child]) => [child.id, ...idsOf(child)])

const Arrow = ({ path }: { readonly path: string }) => (
  <svg class='fields__arrow' viewBox='0 0 20 20' aria-hidden='true'>
    <path d={path} />
  </svg>
)

function undo (form: FormState): void {
  if (form.model.canUndo) show(form, 'Undone', form.model.undo())
}

function redo (form: FormState): void {
  if (form.model.canRedo) show(form, 'Done again', form.model.redo())
}

/** Says what was changed, and goes there. */
function show (form: FormState, what: string, path: Path | undefined): void {
  const name = path === undefined ? '' : nameOf(path)
  announce(name === '' ? `${what}.` : `${what}: ${labelOf(name)}`)
  if (path !== undefined) reveal(form, nearestPath(form.model.root, path))
}

/** Undoes with Ctrl/Cmd-Z, unless the browser undoes what was just typed in a field. */
function useUndoKeys (form: FormState, isShown: boolean): void {
  useEffect(() => {
    if (!isShown) return
    /** What the field had when it got the focus, or after the last step. */
    let before: string | undefined
    const note = () => {
      before = isText(document.activeElement) ? document.activeElement.value : undefined
    }
    const onKeyDown = (event: KeyboardEvent) => {
      if (!(event.ctrlKey || event.metaKey) || event.altKey || event.defaultPrevented) return
      const key = event.key.toLowerCase()
      const isRedo = key === 'y' || (key === 'z' && event.shiftKey)
      if ((key !== 'z' && !isRedo) || document.querySelector('dialog[open]') !== null) return
      if (isText(event.target) && (event.target.type === 'search' || event.target.value !== before)) return
      event.preventDefault()
      if (isRedo) redo(form)
      else undo(form)
      requestAnimationFrame(note) // the field is rendered by then
    }
    addEventListener('focusin', note)
    addEventListener('keydown', onKeyDown)
    return () => {
      removeEventListener('focusin', note)
      removeEventListener('keydown', onKeyDown)
    }
  }, [form, isShown])
}

const isText = (target: EventTarget | null): target is HTMLInputElement | HTMLTextAreaElement =>
  target instanceof HTMLTextAreaElement || (target instanceof HTMLInputElement && target.type !== 'checkbox')
