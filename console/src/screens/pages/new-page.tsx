import { exactJson } from '@landfall/client'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { Actions, Dialog } from '../../components/dialog.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Field } from '../../components/field.tsx'
import { FileButton } from '../../components/file-button.tsx'
import { LeaveDialog } from '../../components/leave-dialog.tsx'
import { announce } from '../../core/announcements.tsx'
import { useAction } from '../../core/load.ts'
import { mayLeave, navigate } from '../../core/router.ts'
import { landfall } from '../../core/service.ts'
import { useSettings } from '../../core/settings.ts'
import { DocumentTextError, readDocumentFile, requireDocument } from './document-text.ts'

/** The initial text. */
const EMPTY = '{}'

interface NewPageProps {
  /** Files that were dropped on the screen. */
  readonly files: readonly File[]
  readonly onClose: () => void
}

/** Creates a page from text, which may be that of a file, and goes to it. */
export function NewPage ({ files, onClose }: NewPageProps) {
  const { max_document_bytes: maxBytes } = useSettings()
  const [title, setTitle] = useState('')
  /** Undefined until the person changes it. */
  const [ownText, setText] = useState<string>()
  /** The text of a file, exactly: the text area would change its line breaks. */
  const [file, setFile] = useState<{ readonly name: string, readonly text: string }>()
  const text = ownText ?? file?.text ??
    (title.trim() === '' ? EMPTY : JSON.stringify({ title: title.trim() }, null, 2))
  const [published, setPublished] = useState(true)
  const creation = useAction(async (files?: readonly File[]) => {
    if (files !== undefined) {
      setFile(undefined)
      const chosen = await readOnlyFile(files, maxBytes)
      forgetTyped()
      setFile(chosen)
      return requireDocument(chosen.text, maxBytes)
    }
    requireDocument(text, maxBytes)
    const { id } = await landfall.landingPages.create(exactJson(text), { published })
    forgetTyped() // so that nobody is asked about it
    announce(`The page is created. ${
      published ? 'Everybody can read it: the tab “Use” has its address.'
        : 'Visitors get “Not found” until you publish it.'
    }`)
    navigate('pages', id)
  })
  const forgetTyped = () => {
    setTitle('')
    setText(undefined)
  }
  const fillFrom = async (chosen: readonly File[]) => {
    if (await mayLeave()) creation.run(chosen)
  }
  const close = async () => {
    if (await mayLeave()) onClose()
  }
  useEffect(() => {
    if (files.length > 0) fillFrom(files)
  }, [files])
  return (
    <>
      <Dialog title='New page' onClose={close} size='large' canCancel={!creation.isRunning}>
        <form
          class='new-page'
          onSubmit={(event) => {
            event.preventDefault()
            creation.run()
          }}
        >
          {ownText === undefined && file === undefined && (
            <Field
              label='Title'
              hint='What the page is called. You can add more to it afterwards.'
              value={title}
              onInput={setTitle}
              hasAutofocus
            />
          )}
          <DocumentField
            text={text}
            onInput={(typed) => {
              setText(typed)
              creation.forget()
            }}
            isOwn={ownText !== undefined || file !== undefined}
            error={creation.error}
          />
          <label class='choices__choice'>
            <input
              type='checkbox'
              checked={published}
              onChange={({ currentTarget }) => setPublished(currentTarget.checked)}
            />
            Publish it at once
          </label>
          {file !== undefined && <p class='new-page__file'>File: {file.name}</p>}
          <ErrorNotice error={creation.error} />
          <Actions>
            <Button type='submit' kind='primary' isBusy={creation.isRunning}>Create the page</Button>
            <FileButton accept='.json,application/json' onChoose={fillFrom}>
              Use a file instead
            </FileButton>
            <Button onClick={close} isDisabled={creation.isRunning}>Cancel</Button>
          </Actions>
        </form>
      </Dialog>
      <LeaveDialog
        title='Discard your text?'
        stay='Keep the text'
        leave='Discard the text'
        isChanged={ownText !== undefined || title !== ''}
      >
        <p>It has not been saved as a page.</p>
      </LeaveDialog>
    </>
  )
}

async function readOnlyFile (
  [file, ...others]: readonly File[],
  maxBytes: number
): Promise<{ name: string, text: string }> {
  if (file === undefined || others.length > 0) throw new DocumentTextError('Choose one file at a time.')
  return { name: file.name, text: await readDocumentFile(file, maxBytes) }
}

interface DocumentFieldProps {
  readonly text: string
  readonly onInput: (text: string) => void
  /** Whether the person has changed it. */
  readonly isOwn: boolean
  readonly error: unknown
}

/** Its text is selected until a person changes it, so that pasting replaces it. Errors move the cursor. */
function DocumentField ({ text, onInput, isOwn, error }: DocumentFieldProps) {
  const id = useId()
  const area = useRef<HTMLTextAreaElement>(null)
  useEffect(() => {
    if (!(error instanceof DocumentTextError) || error.offset === undefined) return
    area.current?.focus()
    // No selection: typing the comma that is missing would replace what follows.
    area.current?.setSelectionRange(error.offset, error.offset)
  }, [error])
  return (
    <div class='field'>
      <label class='field__label' for={id}>Document, for developers</label>
      <textarea
        class='field__input'
        id={id}
        ref={area}
        value={text}
        spellcheck={false}
        autocapitalize='none'
        autocomplete='off'
        aria-describedby={`${id}-hint`}
        aria-invalid={error instanceof DocumentTextError}
        onFocus={({ currentTarget }) => {
          if (!isOwn) currentTarget.select()
        }}
        onInput={({ currentTarget }) => onInput(currentTarget.value)}
      />
      <p class='field__hint' id={`${id}-hint`}>
        Paste JSON here, or drop a file. The page is then called after its “title”.
      </p>
    </div>
  )
}
