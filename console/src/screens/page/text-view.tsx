import { useEffect, useMemo, useState } from 'preact/hooks'
import { formatJson } from '#json-text'
import { Button } from '../../components/button.tsx'
import { announce } from '../../core/announcements.tsx'
import { whyNoFields } from '../../fields/fields-reason.ts'
import { checkJson } from '../../json/check.ts'
import { AssetPicker } from '../assets/asset-picker.tsx'
import { CodeEditor } from './code-editor.tsx'
import { EditorStatus } from './editor-status.tsx'
import type { Editing } from './use-editing.ts'

interface TextViewProps {
  readonly editing: Editing
  /** What is in the editor at first. */
  readonly text: string
  /** Takes files that are dropped or pasted. */
  readonly onFiles: (files: readonly File[]) => unknown
}

/** The document as text. */
export function TextView ({ editing, text, onFiles }: TextViewProps) {
  const { views, save } = editing
  const isLocked = editing.lockedUntil !== null
  const [isPicking, setIsPicking] = useState(false)
  const [picked, setPicked] = useState<string>()
  const reason = useMemo(() => whyNoFields(text), [text])
  // Not before the dialog has given the focus back to its button.
  useEffect(() => {
    if (picked === undefined || isPicking) return
    views.getEditor()?.insertString(picked)
    setPicked(undefined)
  }, [picked, isPicking])
  return (
    <>
      <div class='text-bar'>
        {!isLocked && (
          <>
            <Button onClick={() => format(editing)}>Format</Button>
            <Button onClick={() => setIsPicking(true)}>Insert an asset</Button>
          </>
        )}
        {reason !== undefined && <span class='quiet'>{reason}</span>}
      </div>
      <CodeEditor
        text={text}
        label='Document'
        isReadOnly={isLocked}
        onEditor={(editor) => views.set('text', editor)}
        onChange={(hasChanged) => editing.setIsChanged(hasChanged)}
        onCheck={(check) => editing.setCheck(check)}
        onSave={save}
        onFiles={onFiles}
      />
      <EditorStatus
        check={editing.check}
        onGoTo={(offset) => views.getEditor()?.goTo(offset)}
        onConvertLineEnds={() => views.getEditor()?.convertLineEnds()}
      />
      {isPicking && (
        <AssetPicker
          onPick={({ url }) => {
            setPicked(url)
            setIsPicking(false)
          }}
          onClose={() => setIsPicking(false)}
        />
      )}
    </>
  )
}

function format ({ views }: Editing): void {
  const editor = views.getEditor()
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
