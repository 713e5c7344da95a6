import { defaultKeymap, history, historyKeymap, indentWithTab, isolateHistory,
  simplifySelection } from '@codemirror/commands'
import { bracketMatching, foldGutter, foldKeymap, indentUnit } from '@codemirror/language'
import { linter, lintKeymap, type Diagnostic } from '@codemirror/lint'
import { closeSearchPanel, search, searchKeymap } from '@codemirror/search'
import { Compartment, EditorSelection, EditorState, type Extension, type Text } from '@codemirror/state'
import { EditorView, keymap, lineNumbers, type Command, type KeyBinding } from '@codemirror/view'
import { byteLength } from '#json-text'
import { checkJson, type JsonError } from '../json/check.ts'
import { insertString as placeString } from '../json/insert-string.ts'
import { createShadowRoot, exactText, highlighting, wrapping } from './extensions.ts'
import { hasLongLine } from './long-lines.ts'
import { replaceSelection } from './typed-text.ts'

// Loaded when an editor is shown: `await import('../editor/editor.ts')`.

/** What the editor finds in its text, some time after each change. */
export interface Check {
  readonly error: JsonError | undefined
  readonly byteLength: number
  /** A line is so long that no lines are wrapped. */
  readonly hasLongLine: boolean
}

export interface EditorOptions {
  readonly parent: Element
  readonly text: string
  /** The accessible name. */
  readonly label: string
  /** Called after each change. @param isChanged whether the text differs from the one that was saved */
  onChange(isChanged: boolean): void
  onCheck(check: Check): void
  /** Called for Ctrl/Cmd-S. */
  onSave(): void
}

/** An editor of JSON text. It changes no character by itself. */
export interface Editor {
  getText(): string
  /** Replaces the whole text. It can be undone. */
  setText(text: string): void
  /** Takes this text as the one that was saved. */
  markSaved(text: string): void
  /** Puts a string at the selection, with the quotes, commas and name that it needs there. */
  insertString(value: string): void
  /** Moves the cursor, and the focus. @param offset in UTF-16 units */
  goTo(offset: number): void
  destroy(): void
}

/** Above this size, in UTF-16 units, the text is checked less often while somebody types. */
const LARGE_TEXT = 200_000
const CHECK_DELAY_MS = 300
const LARGE_CHECK_DELAY_MS = 1000
/** How long Tab leaves the editor after Escape. Any other key ends it at once. */
const TAB_LEAVES_MS = 60_000

const TAB_HINT = 'To leave the editor with the keyboard, press Escape, then Tab.'

export function createEditor (options: EditorOptions): Editor {
  const { parent, text, label, onChange, onSave } = options
  const { root, host, hintId } = createShadowRoot(parent, TAB_HINT)
  const wrapped = new Compartment()
  let saved: Text | undefined
  const view = new EditorView({
    parent: root,
    root,
    state: EditorState.create({
      doc: text,
      extensions: [
        exactText,
        replaceSelection,
        highlighting,
        wrapped.of(wrapping(text)),
        lineNumbers(),
        foldGutter(),
        history(),
        bracketMatching(),
        indentUnit.of('  '),
        search({ top: true }),
        checking(options, wrapped),
        keymap.of(createKeys(onSave)),
        EditorView.contentAttributes.of({
          'aria-label': label,
          'aria-describedby': hintId
        }),
        EditorView.updateListener.of(({ docChanged, state }) => {
          if (docChanged) onChange(saved === undefined || !state.doc.eq(saved))
        })
      ]
    })
  })
  saved = view.state.doc
  const insertString = (value: string) => {
    const selection = view.state.selection.main
    const { from, to, insert, anchor, head } = placeString(
      view.state.sliceDoc(),
      selection.from,
      selection.to,
      value
    )
    view.dispatch({
      changes: { from, to, insert },
      selection: { anchor, head },
      userEvent: 'input.paste',
      scrollIntoView: true
    })
    view.focus()
  }
  return {
    getText: () => view.state.sliceDoc(),
    setText (replacement) {
      const { main } = view.state.selection
      view.dispatch({
        changes: { from: 0, to: view.state.doc.length, insert: view.state.toText(replacement) },
        selection: EditorSelection.cursor(Math.min(main.head, replacement.length)),
        annotations: isolateHistory.of('full')
      })
    },
    markSaved (text) {
      saved = view.state.toText(text)
      onChange(!view.state.doc.eq(saved))
    },
    insertString,
    goTo (offset) {
      const anchor = Math.min(offset, view.state.doc.length)
      view.dispatch({ selection: { anchor }, effects: EditorView.scrollIntoView(anchor, { y: 'center' }) })
      view.focus()
    },
    destroy () {
      view.destroy()
      host.remove()
    }
  }
}

/** Checks the text when nobody has typed for a while, and underlines its first error. */
function checking ({ text, onCheck }: EditorOptions, wrapped: Compartment): Extension {
  let isLong = hasLongLine(text)
  const findErrors = (view: EditorView): Diagnostic[] => {
    const { state } = view
    const json = state.sliceDoc()
    const error = checkJson(json)
    if (isLong !== hasLongLine(json)) {
      isLong = !isLong
      view.dispatch({ effects: wrapped.reconfigure(wrapping(json)) })
    }
    onCheck({ error, byteLength: byteLength(json), hasLongLine: isLong })
    if (error === undefined) return []
    const { offset, message } = error
    const to = Math.min(offset + 1, state.doc.lineAt(offset).to)
    return [{ from: offset, to, severity: 'error', message }]
  }
  return linter(findErrors, { delay: text.length > LARGE_TEXT ? LARGE_CHECK_DELAY_MS : CHECK_DELAY_MS })
}

const prepareToLeave: Command = (view) => {
  if (closeSearchPanel(view)) return true
  simplifySelection(view)
  view.setTabFocusMode(TAB_LEAVES_MS)
  return true
}

const createKeys = (onSave: () => void): KeyBinding[] => [
  {
    key: 'Mod-s',
    run () {
      onSave()
      return true
    }
  },
  { key: 'Escape', run: prepareToLeave },
  indentWithTab,
  ...searchKeymap,
  ...historyKeymap,
  ...foldKeymap,
  ...lintKeymap,
  ...defaultKeymap
]
