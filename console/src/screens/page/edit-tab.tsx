import { useEffect, useRef, useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { CopyButton } from '../../components/copy-button.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { announce } from '../../core/announcements.tsx'
import { isMissing } from '../../core/missing.ts'
import { whyNoFields } from '../../fields/fields-reason.ts'
import { ConflictDialog } from './conflict-dialog.tsx'
import { FieldsView } from './fields-view.tsx'
import { RestoreDialog } from './restore-dialog.tsx'
import { TextView } from './text-view.tsx'
import type { Editing } from './use-editing.ts'
import type { ViewName } from './use-views.ts'
import { rememberView } from './view-choice.ts'

interface EditTabProps {
  readonly id: string
  readonly published: boolean
  readonly editing: Editing
  /** What is in the editor at first. */
  readonly text: string
  readonly isShown: boolean
  /** Takes files that are dropped or pasted. */
  readonly onFiles: (files: readonly File[]) => unknown
}

/** Changes the document: its fields, or its text. */
export function EditTab ({ id, published, editing, text, isShown, onFiles }: EditTabProps) {
  const { views, isSaving, error, save } = editing
  const [tools, setTools] = useState<Element | null>(null)
  useSaveKey(isShown, save)
  const isText = views.shown === 'text'
  // Both stay, because they remember what can be undone.
  const opened = useRef(new Set<ViewName>()).current.add(views.shown)
  return (
    <section class='edit' hidden={!isShown} aria-label='Edit'>
      <div class='edit__bar'>
        <Button kind='primary' isBusy={isSaving} onClick={save}>Save</Button>
        <div class='edit__tools' ref={setTools} hidden={isText} />
        <SavedState isChanged={editing.isChanged} published={published} />
        <ViewSwitch id={id} editing={editing} />
      </div>
      {isMissing(error) ? <DeletedNotice editing={editing} /> : <ErrorNotice error={error} onRetry={save} />}
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
      <RestoreDialog editing={editing} />
    </section>
  )
}

function SavedState ({ isChanged, published }: { readonly isChanged: boolean, readonly published: boolean }) {
  return (
    <p class={isChanged ? 'saved-state saved-state--changed' : 'saved-state'}>
      <span class='saved-state__what'>{isChanged ? 'Unsaved changes' : 'No unsaved changes'}</span>{' '}
      {published && (
        <span class='quiet'>
          {isChanged ? 'Visitors don’t see them until you save.' : 'Visitors see this version.'}
        </span>
      )}
    </p>
  )
}

const VIEWS: ReadonlyArray<readonly [name: ViewName, text: string]> = [['fields', 'Form'], ['text', 'Code']]

/** Chooses how the document is shown. */
function ViewSwitch ({ id, editing: { views } }: { readonly id: string, readonly editing: Editing }) {
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
  return (
    <div class='notice notice--error' role='alert'>
      <p>This page was deleted elsewhere, so your text can’t be saved here. Copy it if you still need it.</p>
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
