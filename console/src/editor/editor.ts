import { defaultKeymap, history, historyKeymap, indentWithTab, isolateHistory,
  simplifySelection } from '@codemirror/commands'
import { bracketMatching, foldGutter, foldKeymap, indentUnit } from '@codemirror/language'
import { linter, lintKeymap, type Diagnostic } from '@codemirror/lint'
import { closeSearchPanel, search, searchKeymap } from '@codemirror/search'
import { Compartment, EditorSelection, EditorState, type Extension, type Text } from '@codemirror/state'
import { EditorView, keymap, lineNumbers, type Command, type KeyBinding } from '@codemirror/view'
import { byteLength } from '#json-text'
import { checkJson, findRepeatedName, type JsonError } from '../json/check.ts'
import { insertStrings as placeStrings } from '../json/insert-string.ts'
import { createShadowRoot, exactText, highlighting, wrapping } from './extensions.ts'
import { takeFiles } from './files.ts'
import { hasLongLine } from './long-lines.ts'
import { replaceSelection } from './typed-text.ts'

// Loaded when an editor is shown: `await import('../editor/editor.ts')`.

/** What the editor finds in its text, some time after each change. */
export interface Check {
  readonly error: JsonError | undefined
  /** Something that is probably a mistake, but can be saved. */
  readonly warning: JsonError | undefined
  readonly byteLength: number
  /** A line is so long that no lines are wrapped. */
  readonly hasLongLine: boolean
  /** Lines end with a carriage return and a line feed. */
  readonly hasCarriageReturns: boolean
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
  /** Called with files that are dropped or pasted. The selection is where they belong. */
  onFiles(files: readonly File[]): void
}

interface Range {
  from: number
  to: number
}

/** An editor of JSON text. It changes no character by itself. */
export interface Editor {
  getText(): string
  /** Replaces the whole text. It can be undone. */
  setText(text: string): void
  /** Takes this text as the one that was saved. */
  markSaved(text: string): void
  focus(): void
  /** Makes each line end with a line feed only. It can be undone. */
  convertLineEnds(): void
  /** Whether the person can't change the text. */
  setReadOnly(isReadOnly: boolean): void
  /** Puts a string at the selection, with the quotes, commas and name that it needs there. */
  insertString(value: string): void
  /** Keeps the place of the selection, to which strings come later, whatever is typed meanwhile. */
  keepPlace(): Place
  /** Moves the cursor, and the focus. @param offset in UTF-16 units */
  goTo(offset: number): void
  destroy(): void
}

/** A place in an editor. */
export interface Place {
  /** Puts strings there, like `insertString`. Returns how many: 0 if the editor is gone. */
  insertStrings(values: readonly string[]): number
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
  const readOnly = new Compartment()
  let saved: Text | undefined
  const places = new Set<Range>()
  const view = new EditorView({
    parent: root,
    root,
    state: EditorState.create({
      doc: text,
      extensions: [
        exactText(false),
        takeFiles(options.onFiles),
        replaceSelection,
        highlighting,
        wrapped.of(wrapping(text)),
        readOnly.of(EditorState.readOnly.of(false)),
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
          'aria-describedby': hintId,
          tabindex: '0' // it scrolls, and axe doesn't know that it is editable
        }),
        EditorView.updateListener.of(({ docChanged, state, changes }) => {
          if (!docChanged) return
          onChange(saved === undefined || !state.doc.eq(saved))
          for (const place of places) {
            place.from = changes.mapPos(place.from, 1)
            place.to = Math.max(place.from, changes.mapPos(place.to, -1))
          }
        })
      ]
    })
  })
  saved = view.state.doc
  const insertStrings = (values: readonly string[], { from, to }: Range): number => {
    const { main } = view.state.selection
    const { anchor, head, count, ...changes } = placeStrings(view.state.sliceDoc(), from, to, values)
    view.dispatch({
      changes,
      // If the person has moved the cursor meanwhile, it stays there.
      ...main.from === from && main.to === to && { selection: { anchor, head }, scrollIntoView: true },
      userEvent: 'input.paste'
    })
    return count
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
    focus: () => view.focus(),
    convertLineEnds () {
      const carriageReturns = [...view.state.sliceDoc().matchAll(/\r(?=\n)/g)]
      view.dispatch({
        changes: carriageReturns.map(({ index }) => ({ from: index, to: index + 1 })),
        annotations: isolateHistory.of('full')
      })
      view.focus()
    },
    setReadOnly (isReadOnly) {
      view.dispatch({ effects: readOnly.reconfigure(EditorState.readOnly.of(isReadOnly)) })
    },
    insertString (value) {
      insertStrings([value], view.state.selection.main)
      view.focus()
    },
    keepPlace () {
      const { from, to } = view.state.selection.main
      const place = { from, to }
      places.add(place)
      return { insertStrings: (values) => places.delete(place) ? insertStrings(values, place) : 0 }
    },
    goTo (offset) {
      const anchor = Math.min(offset, view.state.doc.length)
      view.dispatch({ selection: { anchor }, effects: EditorView.scrollIntoView(anchor, { y: 'center' }) })
      view.focus()
    },
    destroy () {
      places.clear()
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
    const warning = error === undefined ? findRepeatedName(json) : undefined
    onCheck({
      error,
      warning,
      byteLength: byteLength(json),
      hasLongLine: isLong,
      hasCarriageReturns: json.includes('\r\n')
    })
    const found = error ?? warning
    if (found === undefined) return []
    const { offset, message } = found
    const to = Math.min(offset + 1, state.doc.lineAt(offset).to)
    return [{ from: offset, to, severity: error === undefined ? 'warning' : 'error', message }]
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
