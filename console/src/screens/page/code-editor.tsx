import { useEffect, useRef, useState } from 'preact/hooks'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { loadPart } from '../../core/load-part.ts'
import { useLoad } from '../../core/load.ts'
import type { Check, Editor } from '../../editor/editor.ts'

interface CodeEditorProps {
  /** What is in the editor at first. */
  readonly text: string
  readonly label: string
  readonly isReadOnly: boolean
  readonly onEditor: (editor: Editor | undefined) => void
  readonly onChange: (isChanged: boolean) => void
  readonly onCheck: (check: Check) => void
  readonly onSave: () => unknown
  readonly onFiles: (files: readonly File[]) => unknown
}

/** An editor of JSON text. Its code is loaded when it is shown first. */
export function CodeEditor (props: CodeEditorProps) {
  const { data: module, error, reload } = useLoad(
    async () => await loadPart(async () => await import('../../editor/editor.ts')),
    []
  )
  const [editor, setEditor] = useState<Editor>()
  const parent = useRef<HTMLDivElement>(null)
  const latest = useRef(props)
  latest.current = props
  useEffect(() => {
    if (module === undefined || parent.current === null) return
    const { text, label } = latest.current
    const editor = module.createEditor({
      parent: parent.current,
      text,
      label,
      onChange: (isChanged) => latest.current.onChange(isChanged),
      onCheck: (check) => latest.current.onCheck(check),
      onSave: () => latest.current.onSave(),
      onFiles: (files) => latest.current.onFiles(files)
    })
    latest.current.onEditor(editor)
    setEditor(editor)
    return () => {
      latest.current.onEditor(undefined)
      editor.destroy()
    }
  }, [module])
  useEffect(() => editor?.setReadOnly(props.isReadOnly), [editor, props.isReadOnly])
  return (
    <>
      <ErrorNotice error={error} onRetry={reload} />
      <div class='code-editor' ref={parent} aria-busy={module === undefined} />
    </>
  )
}
