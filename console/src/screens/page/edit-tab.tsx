import { useEffect, useState } from 'preact/hooks'
import { formatJson } from '#json-text'
import { Button } from '../../components/button.tsx'
import { CopyButton } from '../../components/copy-button.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { announce } from '../../core/announcements.tsx'
import { isMissing } from '../../core/missing.ts'
import { checkJson } from '../../json/check.ts'
import { AssetPicker } from '../assets/asset-picker.tsx'
import { CodeEditor } from './code-editor.tsx'
import { ConflictDialog } from './conflict-dialog.tsx'
import { EditorStatus } from './editor-status.tsx'
import type { Editing } from './use-editing.ts'

interface EditTabProps {
  readonly editing: Editing
  /** What is in the editor at first. */
  readonly text: string
  readonly isShown: boolean
}

/** The editor of the document. */
export function EditTab ({ editing, text, isShown }: EditTabProps) {
  const { isChanged, isSaving, error, save } = editing
  const [isPicking, setIsPicking] = useState(false)
  const [picked, setPicked] = useState<string>()
  useSaveKey(isShown, save)
  // Not before the dialog has given the focus back to its button.
  useEffect(() => {
    if (picked === undefined || isPicking) return
    editing.views.get('text')?.insertString(picked)
    setPicked(undefined)
  }, [picked, isPicking])
  return (
    <section class='edit' hidden={!isShown} aria-label='Edit'>
      <div class='edit__bar'>
        <Button kind='primary' isBusy={isSaving} onClick={save}>Save</Button>
        <Button onClick={() => format(editing)}>Format</Button>
        <Button onClick={() => setIsPicking(true)}>Insert an asset</Button>
        <span class='quiet'>{isChanged ? 'Unsaved changes' : 'No unsaved changes'}</span>
      </div>
      {isMissing(error) ? <DeletedNotice editing={editing} /> : <ErrorNotice error={error} onRetry={save} />}
      <CodeEditor
        text={text}
        label='Document'
        onEditor={(editor) => editing.views.set('text', editor)}
        onChange={(hasChanged) => editing.setIsChanged(hasChanged)}
        onCheck={(check) => editing.setCheck(check)}
        onSave={save}
      />
      <EditorStatus check={editing.check} onGoTo={(offset) => editing.views.get('text')?.goTo(offset)} />
      {isPicking && (
        <AssetPicker
          onPick={(url) => {
            setPicked(url)
            setIsPicking(false)
          }}
          onClose={() => setIsPicking(false)}
        />
      )}
      <ConflictDialog editing={editing} />
    </section>
  )
}

function format (editing: Editing): void {
  const editor = editing.views.get('text')
  if (editor === undefined) return
  const text = editor.getText()
  const error = checkJson(text)
  if (error !== undefined) {
    editor.goTo(error.offset)
    return announce(`Only JSON can be formatted. Line ${error.line}, column ${error.column}: ` +
      `${error.message}`)
  }
  const formatted = formatJson(text)
  if (formatted === text) return announce('The document is formatted already.')
  editor.setText(formatted)
  announce('Formatted. Only white space was changed.')
}

function DeletedNotice ({ editing }: { readonly editing: Editing }) {
  return (
    <div class='notice notice--error' role='alert'>
      <p>This page was deleted elsewhere, so your text can’t be saved here. Copy it if you still need it.</p>
      <CopyButton text={editing.views.getText()} what='text' />
    </div>
  )
}

/** Saves with Ctrl/Cmd-S, also when the focus is not in the editor, which handles its own. */
function useSaveKey (isShown: boolean, save: () => unknown): void {
  useEffect(() => {
    if (!isShown) return
    const onKeyDown = (event: KeyboardEvent) => {
      if (!(event.ctrlKey || event.metaKey) || event.key !== 's' || event.defaultPrevented) return
      event.preventDefault()
      if (document.querySelector('dialog[open]') === null) save()
    }
    addEventListener('keydown', onKeyDown)
    return () => removeEventListener('keydown', onKeyDown)
  })
}
