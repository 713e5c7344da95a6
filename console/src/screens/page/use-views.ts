import { useRef, useState } from 'preact/hooks'
import type { Editor } from '../../editor/editor.ts'
import { whyNoFields } from '../../fields/fields-reason.ts'

/** Shows the text of the document, and lets the person change it. */
export interface DocumentView {
  getText(): string
  /** Replaces the whole text. It can be undone. */
  setText(text: string): void
  /** Takes this text as the one that was saved. */
  markSaved(text: string): void
  /** Moves the focus to where the person has changed something, unless it is in the view already. */
  focus(): void
}

export interface FieldsView extends DocumentView {
  /** Returns a JSON Patch of the saved text; undefined if the whole text has to be sent. */
  getPatch(): string | undefined
  /** Whether what is typed in a field can't be stored, so that it is not in the text. */
  hasProblem(): boolean
  /** Moves the focus to the first field that can't be stored. Returns what is wrong, if there is one. */
  showProblem(): string | undefined
}

interface ViewTypes {
  fields: FieldsView
  text: Editor
}

export type ViewName = keyof ViewTypes

/** The text of a document that is being changed, and the views that show it, one at a time. */
export interface Views {
  readonly shown: ViewName
  /** Returns the text with all changes. */
  getText(): string
  setText(text: string): void
  /** Returns the view that is shown; undefined while its code is loaded. */
  getShown(): DocumentView | undefined
  /** Returns the fields, if they are shown. */
  getFields(): FieldsView | undefined
  /** Returns the editor, if it is shown. */
  getEditor(): Editor | undefined
  /** Adds a view when it is ready, or removes it. */
  set<Name extends ViewName>(name: Name, view: ViewTypes[Name] | undefined): void
  /** Shows the text in another view. Fields are shown only for a text that they can show. */
  show(name: ViewName): void
}

/** @param getSaved returns the text that was saved */
export function useViews (first: ViewName, getSaved: () => string): Views {
  const views = useRef<{ [Name in ViewName]?: ViewTypes[Name] | undefined }>({})
  /** The text, while no view has it. */
  const kept = useRef<string | undefined>(undefined)
  const name = useRef(first)
  const [shown, setShown] = useState(first)
  const getShown = () => views.current[name.current]
  const getText = () => getShown()?.getText() ?? kept.current ?? getSaved()
  const choose = (next: ViewName) => {
    name.current = next
    setShown(next)
  }
  const adopt = (text: string) => {
    kept.current = text
    if (name.current === 'fields' && whyNoFields(text) !== undefined) choose('text')
    const view = getShown()
    if (view === undefined) return
    if (view.getText() !== text) view.setText(text)
    view.markSaved(getSaved())
  }
  return {
    shown,
    getText,
    setText: adopt,
    getShown,
    getFields: () => name.current === 'fields' ? views.current.fields : undefined,
    getEditor: () => name.current === 'text' ? views.current.text : undefined,
    set (added, view) {
      const text = getText()
      views.current[added] = view
      if (added === name.current) adopt(text)
    },
    show (next) {
      const text = getText()
      choose(next)
      adopt(text)
    }
  }
}
