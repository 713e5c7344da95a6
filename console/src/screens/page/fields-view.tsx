import { useEffect, useState } from 'preact/hooks'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { loadPart } from '../../core/load-part.ts'
import { useLoad } from '../../core/load.ts'
import type { FormState } from './fields/form-state.ts'
import type { Editing } from './use-editing.ts'

interface FieldsViewProps {
  readonly editing: Editing
  readonly isShown: boolean
  /** The place of the buttons for the whole form. */
  readonly tools: Element | null
}

/** The document as fields. Their code is loaded when they are shown first. */
export function FieldsView ({ editing, isShown, tools }: FieldsViewProps) {
  const { data: module, error, reload } = useLoad(
    async () => await loadPart(async () => await import('./fields/fields-form.tsx')),
    []
  )
  const [form, setForm] = useState<FormState>()
  useEffect(() => {
    const { views } = editing
    // Meanwhile the person may have gone to the text, which fields can't always show.
    if (module === undefined || form !== undefined || views.shown !== 'fields') return
    const opened = module.openForm(views.getText(), (isChanged) => editing.setIsChanged(isChanged))
    views.set('fields', opened.view)
    setForm(opened.form)
  }, [module, editing.views.shown])
  return (
    <>
      <ErrorNotice error={error} onRetry={reload} />
      {module !== undefined && form !== undefined && (
        <module.FieldsForm
          form={form}
          isShown={isShown}
          isLocked={editing.lockedUntil !== null}
          tools={tools}
        />
      )}
      {form === undefined && error === undefined && <p class='quiet'>Loading the fields …</p>}
    </>
  )
}
