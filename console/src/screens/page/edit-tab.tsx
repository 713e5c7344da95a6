import { useEffect, useRef, useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { CopyButton } from '../../components/copy-button.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { announce } from '../../core/announcements.tsx'
import { isMissing } from '../../core/missing.ts'
import { href } from '../../core/router.ts'
import { useSettings } from '../../core/settings.ts'
import { whyNoFields } from '../../fields/fields-reason.ts'
import { ConflictDialog } from './conflict-dialog.tsx'
import { FieldsView } from './fields-view.tsx'
import { OutdatedDialog } from './outdated-dialog.tsx'
import { RestoreDialog } from './restore-dialog.tsx'
import { TextView } from './text-view.tsx'
import type { Editing } from './use-editing.ts'
import type { ViewName } from './use-views.ts'
import { rememberView } from './view-choice.ts'

interface EditTabProps {
  readonly editing: Editing
  /** What is in the editor at first. */
  readonly text: string
  readonly isShown: boolean
  /** Takes files that are dropped or pasted. */
  readonly onFiles: (files: readonly File[]) => unknown
}

/** Changes the document: its fields, or its text. */
export function EditTab ({ editing, text, isShown, onFiles }: EditTabProps) {
  const { views, error, save, retry } = editing
  const [tools, setTools] = useState<Element | null>(null)
  useSaveKey(isShown, save)
  const isText = views.shown === 'text'
  // Both stay, because they remember what can be undone.
  const opened = useRef(new Set<ViewName>()).current.add(views.shown)
  return (
    <section class='edit' hidden={!isShown} aria-label='Edit'>
      <div class='edit__bar'>
        <SaveButtons editing={editing} />
        <div class='edit__tools' ref={setTools} hidden={isText || editing.lockedUntil !== null} />
        <SavedState editing={editing} />
        <ViewSwitch editing={editing} />
      </div>
      {isMissing(error) ? <DeletedNotice editing={editing} /> : <ErrorNotice error={error} onRetry={retry} />}
      {opened.has('text') && (
        <div class='edit__view' hidden={!isText}>
          <TextView editing={editing} text={text} onFiles={onFiles} />
        </div>
      )}
      {opened.has('fields') && (
        <div class='edit__view' hidden={isText}>
          <FieldsView editing={editing} isShown={isShown && !isText} tools={tools} />
        </div>
      )}
      {!editing.unsaved.hasPlace && (
        <p class='quiet' role='status'>
          The browser has no place to keep this text for you, so a reload would lose it. Save it soon.
        </p>
      )}
      <ConflictDialog editing={editing} />
      <OutdatedDialog editing={editing} />
      <RestoreDialog editing={editing} />
    </section>
  )
}

/** The primary button is what visitors see afterwards. */
function SaveButtons ({ editing }: { readonly editing: Editing }) {
  const { kind, publication: { published }, lockedUntil, running, save, saveDraft, publish } = editing
  // While something is saved, a publication waits for it.
  if (kind === 'document' && published) {
    return (
      <>
        <Button kind='primary' isBusy={running === 'save'} onClick={save}>Save and publish</Button>
        <Button isBusy={running === 'draft'} onClick={saveDraft}>Save draft</Button>
      </>
    )
  }
  return (
    <>
      <Button kind='primary' isBusy={running === 'publish'} onClick={publish}>
        {lockedUntil === null ? 'Publish' : 'Publish now'}
      </Button>
      {lockedUntil === null && (
        <Button isBusy={running === 'save'} onClick={save}>{kind === 'draft' ? 'Save draft' : 'Save'}</Button>
      )}
    </>
  )
}

function SavedState ({ editing }: { readonly editing: Editing }) {
  const { isChanged } = editing
  return (
    <p class={isChanged ? 'saved-state saved-state--changed' : 'saved-state'}>
      <span class='saved-state__what'>{isChanged ? 'Unsaved changes' : 'No unsaved changes'}</span>{' '}
      <span class='saved-state__visibility quiet'>{visibilityOf(editing)}</span>
    </p>
  )
}

/** What visitors see of the text in the editor. */
function visibilityOf ({ kind, isChanged, publication: { published } }: Editing): string {
  if (!published) return 'Visitors get “Not found”.'
  if (kind === 'draft') return 'Visitors don’t see this draft.'
  return isChanged ? 'Visitors don’t see them until you save and publish.' : 'Visitors see this version.'
}

const VIEWS: ReadonlyArray<readonly [name: ViewName, text: string]> = [['fields', 'Form'], ['text', 'Code']]

/** Chooses how the document is shown. */
function ViewSwitch ({ editing: { id, views } }: { readonly editing: Editing }) {
  const choose = (name: ViewName) => {
    if (name === views.shown) return
    const problem = name === 'fields' ? whyNoFields(views.getText()) : views.getFields()?.showProblem()
    if (problem !== undefined) return announce(problem)
    rememberView(id, name)
    views.show(name)
  }
  return (
    <div class='view-switch' role='group' aria-label='Show as'>
      {VIEWS.map(([name, text]) => (
        <button
          class='view-switch__view'
          type='button'
          aria-pressed={views.shown === name}
          onClick={() => choose(name)}
          key={name}
        >
          {text}
        </button>
      ))}
    </div>
  )
}

function DeletedNotice ({ editing }: { readonly editing: Editing }) {
  const { trash_days: trashDays } = useSettings()
  return (
    <div class='notice notice--error' role='alert'>
      <p>
        This page was deleted elsewhere, so your text can’t be saved here. Copy it if you still need it
        {trashDays > 0 && (
          <>
            , or restore the page from the{' '}
            <a href={href('trash')} target='_blank' rel='noreferrer'>
              trash<span class='visually-hidden'>, in a new tab</span>
            </a>, and then save again
          </>
        )}.
      </p>
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
