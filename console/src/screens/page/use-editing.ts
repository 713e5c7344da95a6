import { exactJson, PreconditionFailedError, type Revision } from '@landfall/client'
import { useEffect, useRef, useState } from 'preact/hooks'
import { announce, clearAnnouncement } from '../../core/announcements.tsx'
import { useAction } from '../../core/load.ts'
import { landfall } from '../../core/service.ts'
import { useSettings } from '../../core/settings.ts'
import { onReturn } from '../../core/visibility.ts'
import type { Check } from '../../editor/editor.ts'
import { DocumentTextError, requireDocument, type SavedDocument } from '../pages/document-text.ts'
import { useUnsavedText, type UnsavedTextKeeper } from './use-unsaved-text.ts'
import { useViews, type Views } from './use-views.ts'
import { firstView } from './view-choice.ts'

/** Two versions that are based on the same one. */
export interface Conflict {
  readonly mine: string
  readonly theirs: SavedDocument
  /** When and by whom the other one was saved; undefined if it was replaced in the meantime. */
  readonly revision: Revision | undefined
}

const SHOWN_NEWEST = 'This page was changed elsewhere. Its newest version is shown now.'

/** What happens to the text of the document. All views show the same text, one at a time. */
export interface Editing {
  readonly views: Views
  readonly unsaved: UnsavedTextKeeper
  readonly isChanged: boolean
  readonly check: Check | undefined
  readonly conflict: Conflict | undefined
  readonly isSaving: boolean
  /** Why the text was not saved. */
  readonly error: unknown
  setIsChanged(isChanged: boolean): void
  setCheck(check: Check): void
  /** Saves the text, unless the document was changed elsewhere. */
  save(): Promise<unknown>
  /** Saves the text in place of the other version of the conflict. */
  keepMine(): Promise<unknown>
  takeTheirs(): void
  /** Closes the question about the conflict. The next attempt to save asks it again. */
  postpone(): void
  /** Shows the document that the service has now, unless there are unsaved changes. */
  refresh(): Promise<void>
}

/** @param onSaved called with each text that the service has */
export function useEditing (id: string, loaded: SavedDocument, onSaved: (text: string) => void): Editing {
  const { max_document_bytes: maxBytes } = useSettings()
  /** The version on which the text is based. */
  const base = useRef(loaded)
  const views = useViews(firstView(id, loaded.text), () => base.current.text)
  const [isChanged, setIsChanged] = useState(false)
  const [check, setCheck] = useState<Check>()
  const [conflict, setConflict] = useState<Conflict>()

  const unsaved = useUnsavedText(id, loaded, {
    getText: () => views.getText(),
    getBase: () => base.current,
    restore (text, etag) {
      // If the page has changed meanwhile, the tag of the older version leads to a conflict.
      base.current = { text: loaded.text, etag }
      views.setText(text)
    }
  })

  const rebase = (saved: SavedDocument) => {
    base.current = saved
    views.getShown()?.markSaved(saved.text)
    setConflict(undefined)
    unsaved.note()
    onSaved(saved.text)
  }
  const show = (document: SavedDocument) => {
    rebase(document)
    views.setText(document.text)
  }
  const saving = useAction(async (ifMatch: string) => {
    clearAnnouncement()
    const mine = views.getText()
    const fields = views.getFields()
    const problem = fields?.showProblem()
    if (problem !== undefined) return announce(`Not saved. ${problem}`)
    // A patch changes the version on which the text is based, no other.
    const patch = ifMatch === base.current.etag ? fields?.getPatch() : undefined
    try {
      requireDocument(mine, maxBytes)
      const { etag } = patch === undefined
        ? await landfall.landingPages.putDocument(id, exactJson(mine), { ifMatch })
        : await landfall.landingPages.patchDocument(id, exactJson(patch), { type: 'json-patch', ifMatch })
      rebase({ text: mine, etag })
      announce('Saved')
    } catch (error) {
      if (error instanceof DocumentTextError && error.offset !== undefined) {
        views.getEditor()?.goTo(error.offset)
        // Below the editor, the error is there until it is mended.
        return announce(`Not saved. ${error.message}`)
      }
      if (!(error instanceof PreconditionFailedError)) throw error
      const [{ text, etag }, { items }] = await Promise.all([
        landfall.landingPages.getDocument(id),
        landfall.landingPages.revisionsPage(id, { limit: 1 })
      ])
      if (text === mine) {
        rebase({ text, etag })
        announce('Saved')
      } else if (mine === base.current.text && views.getText() === mine) {
        show({ text, etag })
        announce(SHOWN_NEWEST)
      } else {
        const revision = items.find((item) => item.etag === etag)
        setConflict({ mine, theirs: { text, etag }, revision })
      }
    }
  })
  /** Shows the newest version, unless the text was changed. Returns whether there was one. */
  const refresh = async (): Promise<boolean> => {
    const start = base.current
    // Checked again after the response, because somebody may have typed or saved meanwhile.
    const hasMovedOn = () =>
      base.current !== start || views.getText() !== start.text ||
      views.getFields()?.hasProblem() === true
    if (hasMovedOn()) return false
    const document = await landfall.landingPages.getDocument(id)
    if (document.etag === start.etag || hasMovedOn()) return false
    show(document)
    return true
  }
  useEffect(() =>
    onReturn(() => {
      // If the service can't be reached or the page was deleted, the next attempt to save tells that.
      refresh().then((isNew) => isNew && announce(SHOWN_NEWEST), () => {})
    }), [])
  return {
    views,
    unsaved,
    isChanged,
    check,
    conflict,
    isSaving: saving.isRunning,
    error: saving.error,
    setIsChanged (hasChanged) {
      setIsChanged(hasChanged)
      unsaved.note()
    },
    setCheck,
    save: async () => await saving.run(base.current.etag),
    keepMine: async () => await saving.run(conflict?.theirs.etag ?? base.current.etag),
    takeTheirs () {
      if (conflict === undefined) return
      show(conflict.theirs)
      announce('The other version is shown now. Undo brings yours back.')
    },
    postpone: () => setConflict(undefined),
    async refresh () {
      await refresh()
    }
  }
}
