import { useEffect, useState } from 'preact/hooks'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { loadPart } from '../../core/load-part.ts'
import { useLoad } from '../../core/load.ts'
import type { FormState } from './fields/form-state.ts'
import type { Editing } from './use-editing.ts'

interface FieldsViewProps {
  readonly editing: Editing
  readonly isShown: boolean
}

/** The document as fields. Their code is loaded when they are shown first. */
export function FieldsView ({ editing, isShown }: FieldsViewProps) {
  const { data: module, error, reload } = useLoad(
    async () => await loadPart(async () => await import('./fields/fields-form.tsx')),
    []
  )
  const [form, setForm] = useState<FormState>()
  useEffect(() => {
    if (module === undefined) return
    const { views } = editing
    const { form, view } = module.openForm(views.getText(), (isChanged) => editing.setIsChanged(isChanged))
    views.set('fields', view)
    setForm(form)
  }, [module])
  return (
    <>
      <ErrorNotice error={error} onRetry={reload} />
      {module !== undefined && form !== undefined && <module.FieldsForm form={form} isShown={isShown} />}
      {form === undefined && error === undefined && <p class='quiet'>Loading the fields …</p>}
    </>
  )
}
