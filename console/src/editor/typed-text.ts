import { EditorView } from '@codemirror/view'

/**
 * Replaces a selection by what is typed, or deletes it. If the browser did it, Chromium would keep the colour
 * of the selected text with a `style` attribute, which the policy of the console refuses.
 */
export const replaceSelection = EditorView.domEventHandlers({
  beforeinput (event, view) {
    const typed = typedText(event)
    const { state } = view
    if (typed === null || state.selection.main.empty || state.readOnly || view.composing) return false
    const userEvent = typed === '' ? 'delete.selection' : 'input.type'
    view.dispatch(state.update(state.replaceSelection(typed), { userEvent, scrollIntoView: true }))
    return true
  }
})

/** Returns what takes the place of a selection; null if CodeMirror handles the event. */
function typedText ({ inputType, data }: InputEvent): string | null {
  if (inputType === 'insertText') return data
  // Such as by the menu of the browser.
  return inputType.startsWith('deleteContent') ? '' : null
}
