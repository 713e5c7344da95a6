import type { Extension } from '@codemirror/state'
import { dropCursor, EditorView } from '@codemirror/view'
import { pastedFiles } from './pasted-files.ts'

/**
 * Passes on files that are dropped or pasted, and moves the cursor to where they were dropped. CodeMirror
 * would insert what is in them.
 */
export const takeFiles = (onFiles: (files: readonly File[]) => void): Extension => [
  dropCursor(),
  EditorView.domEventHandlers({
    drop (event, view) {
      const files = [...event.dataTransfer?.files ?? []]
      if (files.length === 0) return false
      const anchor = view.posAtCoords({ x: event.clientX, y: event.clientY }, false)
      view.dispatch({ selection: { anchor } })
      view.focus()
      onFiles(files)
      return true
    },
    paste (event) {
      const files = pastedFiles(event)
      if (files.length === 0) return false
      onFiles(files)
      return true
    }
  })
]
