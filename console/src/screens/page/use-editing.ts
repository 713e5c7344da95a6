import { ConflictError, PreconditionFailedError, type Publication } from '@landfall/client'
import { useEffect, useRef, useState } from 'preact/hooks'
import { announce } from '../../core/announcements.tsx'
import { ignoreMissing } from '../../core/missing.ts'
import { landfall } from '../../core/service.ts'
import { useSettings } from '../../core/settings.ts'
import { onReturn } from '../../core/visibility.ts'
import type { Check } from '../../editor/editor.ts'
import { DocumentTextError, requireDocument } from '../pages/document-text.ts'
import { ChangedSinceError, loadDocument, loadEdited, loadOther, store, tagOfUnpublished, type EditedDocument,
  type EditedPage, type Kind, type OtherVersion } from './edited-document.ts'
import { useSteps, type Step } from './use-steps.ts'
import { useUnsavedText, type UnsavedTextKeeper } from './use-unsaved-text.ts'
import { useViews, type Views } from './use-views.ts'
import { firstView } from './view-choice.ts'

/** Two versions that are based on the same one. */
export interface Conflict {
  /** What the person wanted to save. */
  readonly kind: Kind
  readonly mine: string
  readonly theirs: OtherVersion
  /** Whether the page was shown as published when the person wanted that. */
  readonly wasPublished: boolean
}

/** A draft that is based on another version than the one that visitors get. */
export interface Outdated {
  readonly mine: string
  readonly theirs: OtherVersion
  /** The version that the draft would replace. */
  readonly version: number
}

/** By then the service has done what was scheduled. */
const AFTER_SCHEDULE_MS = 2000
/** The longest time that browsers wait. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1

/** Undefined for never. */
export interface ScheduledTimes {
  readonly publishAt: Date | undefined
  readonly unpublishAt: Date | undefined
}

const SHOWN_NEWEST = 'This page was changed elsewhere. Its newest version is shown now.'
const PUBLISHED_SINCE = 'This page was published meanwhile. Your changes are not saved.'
const VISIBLE = 'Visitors see it now.'

/** What happens to the text of the document or the draft. All views show the same text, one at a time. */
export interface Editing {
  /** Of the page. */
  readonly id: string
  readonly views: Views
  readonly unsaved: UnsavedTextKeeper
  /** Whether the text belongs to the draft or to the document. */
  readonly kind: Kind
  readonly publication: Publication
  /** When the draft is published. Until then it can't be changed. */
  readonly lockedUntil: string | null
  readonly isChanged: boolean
  readonly check: Check | undefined
  readonly conflict: Conflict | undefined
  readonly outdated: Outdated | undefined
  readonly running: Step | undefined
  /** Why the text was not saved or published. */
  readonly error: unknown
  setIsChanged(isChanged: boolean): void
  setCheck(check: Check): void
  /** Saves the text as what it is, unless that was changed elsewhere. */
  save(): Promise<void>
  /** Saves the text of the document as a draft. */
  saveDraft(): Promise<void>
  /** Publishes exactly the text, which is saved before. */
  publish(): Promise<void>
  /** Publishes the draft in place of the version that visitors get. */
  publishAnyway(): Promise<void>
  unpublish(): Promise<void>
  /** Publishes what is in the editor, and unpublishes the page, at set times. */
  schedule(times: ScheduledTimes): Promise<void>
  /** Shows the document again. */
  discardDraft(): Promise<void>
  /** Does again what has failed. */
  retry(): unknown
  /** Saves the text in place of the other version of the conflict. */
  keepMine(): Promise<void>
  /** Saves the text as a draft, beside the other version of the conflict. */
  keepMineAsDraft(): Promise<void>
  takeTheirs(): void
  /** Closes the question about a conflict. The next attempt asks it again. */
  postpone(): void
  /** Shows the current state of the page, and its current text unless there are unsaved changes. */
  refresh(): Promise<void>
}

/** @param onSaved called with each text that the service has */
export function useEditing (id: string, loaded: EditedPage, onSaved: (text: string) => void): Editing {
  const { max_document_bytes: maxBytes } = useSettings()
  /** The version on which the text is based. */
  const base = useRef(loaded.edited)
  const views = useViews(firstView(id, loaded.edited.text), () => base.current.text)
  const [kind, setKind] = useState(loaded.edited.kind)
  const [publication, setPublication] = useState(loaded.publication)
  const { publish_at: publishAt, unpublish_at: unpublishAt } = publication
  const [isChanged, setIsChanged] = useState(false)
  const [check, setCheck] = useState<Check>()
  const [conflict, setConflict] = useState<Conflict>()
  const [outdated, setOutdated] = useState<Outdated>()
  const { running, error, run, enqueue, retry } = useSteps()

  const unsaved = useUnsavedText(id, loaded.edited, {
    getText: () => views.getText(),
    getBase: () => base.current,
    restore (text, etag) {
      // If the page has changed meanwhile, the tag of the older version leads to a conflict.
      base.current = { ...loaded.edited, etag }
      views.setText(text)
    }
  })

  const rebase = (saved: EditedDocument) => {
    base.current = saved
    setKind(saved.kind)
    views.getShown()?.markSaved(saved.text)
    setConflict(undefined)
    unsaved.note()
    onSaved(saved.text)
  }
  const show = (edited: EditedDocument) => {
    rebase(edited)
    views.setText(edited.text)
  }
  const hasUnsaved = () => views.getText() !== base.current.text || views.getFields()?.hasProblem() === true
  /** Asks for the state of the page. Returns it, or what is known if the service can't be reached. */
  const updatePublication = async (known: Publication): Promise<Publication> => {
    const now = await landfall.landingPages.publication(id).catch(() => known)
    setPublication(now)
    return now
  }

  /** Another version is in the way: shows it, unless the text was changed. */
  const meet = async (wanted: Kind, mine: string, theirs: OtherVersion) => {
    setOutdated(undefined)
    await updatePublication(publication)
    if (theirs.text === mine) {
      rebase(theirs)
      announce('Saved')
    } else if (mine === base.current.text && views.getText() === mine) {
      show(theirs)
      announce(SHOWN_NEWEST)
    } else setConflict({ kind: wanted, mine, theirs, wasPublished: publication.published })
  }
  /**
   * Stores the text. Returns whether the service has it now, and the person has nothing to decide.
   *
   * @param mayShow whether visitors may see the text
   */
  const storeText = async (wanted: Kind, from: EditedDocument, mayShow: boolean): Promise<boolean> => {
    const mine = views.getText()
    const fields = views.getFields()
    const problem = fields?.showProblem()
    if (problem !== undefined) {
      announce(`Not saved. ${problem}`)
      return false
    }
    // A patch changes the version on which the text is based, no other.
    const patch = from === base.current ? fields?.getPatch() : undefined
    try {
      requireDocument(mine, maxBytes)
      const etag = wanted === 'draft' || mayShow ? from.etag : await tagOfUnpublished(id, from.etag)
      rebase(await store(id, { kind: wanted, text: mine, patch, base: { kind: from.kind, etag } }))
      return true
    } catch (error) {
      if (error instanceof DocumentTextError && error.offset !== undefined) {
        views.getEditor()?.goTo(error.offset)
        // Below the editor, the error is there until it is mended.
        announce(`Not saved. ${error.message}`)
        return false
      }
      // The draft is scheduled since.
      if (error instanceof ConflictError) await updatePublication(publication)
      if (!(error instanceof PreconditionFailedError || error instanceof ChangedSinceError)) throw error
      await meet(wanted, mine, wanted === 'draft' ? await loadOther(id) : await loadDocument(id))
      return false
    }
  }
  const publishStored = async (baseVersion?: number) => {
    const { text, etag } = base.current
    try {
      await landfall.landingPages.publish(id, {
        ifMatch: etag,
        ...baseVersion !== undefined && { baseVersion }
      })
    } catch (error) {
      if (error instanceof PreconditionFailedError) {
        return await meet(base.current.kind, text, await loadOther(id))
      }
      if (!(error instanceof ConflictError)) throw error
      // Before the document: a later change is then refused once more.
      const { version } = await landfall.landingPages.publication(id)
      return setOutdated({ mine: text, theirs: await loadDocument(id), version })
    }
    setOutdated(undefined)
    rebase({ kind: 'document', text, etag })
    announce(`Published. ${VISIBLE}`)
    await updatePublication({ ...publication, published: true, draft: null })
  }

  const saveAs = async (wanted: Kind | undefined, from?: EditedDocument) => {
    if (kind === 'draft' && publishAt !== null) return announce('Not saved: the draft is scheduled.')
    await run(wanted === 'draft' ? 'draft' : 'save', async () => {
      const stored = wanted ?? base.current.kind
      // A page that is shown as unpublished is saved for nobody but its owner.
      if (!await storeText(stored, from ?? base.current, publication.published)) return
      const { published } = await updatePublication(publication)
      if (stored === 'draft') announce('Draft saved. Visitors don’t see it until you publish it.')
      else announce(`Saved. ${published ? VISIBLE : 'Visitors get “Not found” until you publish.'}`)
    })
  }

  /** Shows the newest state, and version unless the text was changed. Returns whether the version is new. */
  const refresh = async (): Promise<boolean> => {
    const start = base.current
    const now = await loadEdited(id)
    // The person has saved meanwhile.
    if (base.current !== start) return false
    setPublication(now.publication)
    if (hasUnsaved()) {
      if (now.publication.published && !publication.published) announce(PUBLISHED_SINCE)
      return false
    }
    if (now.edited.etag === start.etag && now.edited.kind === start.kind) return false
    show(now.edited)
    return true
  }
  useEffect(() => {
    const times = [publishAt, unpublishAt].map((time) => time === null ? Infinity : Date.parse(time))
    const wait = Math.min(...times) - Date.now() + AFTER_SCHEDULE_MS
    if (wait > MAX_TIMEOUT_MS) return
    const timer = setTimeout(() => {
      refresh().then((isNew) => isNew && announce('The draft was published, as it was scheduled.'), () => {})
    }, wait)
    return () => clearTimeout(timer)
  }, [publishAt, unpublishAt])
  useEffect(() =>
    onReturn(() => {
      // If the service can't be reached or the page was deleted, the next attempt to save tells that.
      refresh().then((isNew) => isNew && announce(SHOWN_NEWEST), () => {})
    }), [publication])
  return {
    id,
    views,
    unsaved,
    kind,
    publication,
    lockedUntil: kind === 'draft' ? publishAt : null,
    isChanged,
    check,
    conflict,
    outdated,
    running,
    error,
    setIsChanged (hasChanged) {
      setIsChanged(hasChanged)
      unsaved.note()
    },
    setCheck,
    save: async () => await saveAs(undefined),
    async saveDraft () {
      if (hasUnsaved()) await saveAs('draft')
      else announce('There is nothing to save: this is what visitors see.')
    },
    publish: async () =>
      await run('publish', async () => {
        if (!hasUnsaved() || await storeText(base.current.kind, base.current, true)) await publishStored()
      }),
    publishAnyway: async () => await run('publish', async () => await publishStored(outdated?.version)),
    retry,
    async unpublish () {
      await landfall.landingPages.unpublish(id)
      await updatePublication({ ...publication, published: false })
      announce('Unpublished. Visitors get “Not found”.')
    },
    async schedule ({ publishAt, unpublishAt }) {
      await enqueue(async () => {
        const isSaved = publishAt === undefined || !hasUnsaved() ||
          await storeText(publication.published ? 'draft' : base.current.kind, base.current, false)
        if (!isSaved) return
        // What is published is what was read.
        const { etag: ifMatch, kind, text } = base.current
        try {
          await landfall.landingPages.setSchedule(
            id,
            { publishAt: publishAt ?? null, unpublishAt: unpublishAt ?? null },
            publishAt === undefined ? {} : { ifMatch }
          )
        } catch (error) {
          if (!(error instanceof PreconditionFailedError)) throw error
          return await meet(kind, text, await loadOther(id))
        }
        await updatePublication(publication)
        announce(publishAt ?? unpublishAt ? 'The schedule is set.' : 'The schedule is removed.')
      })
    },
    async discardDraft () {
      await landfall.landingPages.discardDraft(id, { ifMatch: base.current.etag }).catch(ignoreMissing)
      const now = await loadEdited(id)
      show(now.edited)
      setPublication(now.publication)
      announce('The draft is discarded. Undo brings its text back.')
    },
    keepMine: async () => {
      if (conflict !== undefined) await saveAs(conflict.kind, conflict.theirs)
    },
    keepMineAsDraft: async () => await saveAs('draft', conflict?.theirs),
    takeTheirs () {
      if (conflict === undefined) return
      show(conflict.theirs)
      announce('The other version is shown now. Undo brings yours back.')
    },
    postpone () {
      setConflict(undefined)
      setOutdated(undefined)
    },
    async refresh () {
      await refresh()
    }
  }
}
