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

/** Creates a page from text or from a file, and goes to it. */
export function NewPage ({ files, onClose }: NewPageProps) {
  const { max_document_bytes: maxBytes } = useSettings()
  const [title, setTitle] = useState('')
  /** Undefined until the person changes it. */
  const [ownText, setText] = useState<string>()
  const text = ownText ?? (title.trim() === '' ? EMPTY : JSON.stringify({ title: title.trim() }, null, 2))
  const [file, setFile] = useState<File>()
  const [published, setPublished] = useState(true)
  const creation = useAction(async (source: string | readonly File[]) => {
    setFile(undefined)
    const document = typeof source === 'string' ? source : await readOnlyFile(source, maxBytes, setFile)
    requireDocument(document, maxBytes)
    // The text of a file doesn't pass through the text area, which would change its line breaks.
    const { id } = await landfall.landingPages.create(exactJson(document), { published })
    setTitle('') // so that nobody is asked about it
    setText(undefined)
    announce(`The page is created. ${
      published ? 'Everybody can read it: the tab “Use” has its address.'
        : 'Visitors get “Not found” until you publish it.'
    }`)
    navigate('pages', id)
  })
  const createFrom = async (chosen: readonly File[]) => {
    if (await mayLeave()) creation.run(chosen)
  }
  const close = async () => {
    if (await mayLeave()) onClose()
  }
  useEffect(() => {
    if (files.length > 0) createFrom(files)
  }, [files])
  return (
    <>
      <Dialog title='New page' onClose={close} size='large' canCancel={!creation.isRunning}>
        <form
          class='new-page'
          onSubmit={(event) => {
            event.preventDefault()
            creation.run(text)
          }}
        >
          {ownText === undefined && (
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
            onInput={setText}
            isOwn={ownText !== undefined}
            error={file === undefined ? creation.error : undefined}
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
            <FileButton accept='.json,application/json' onChoose={createFrom}>
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
  maxBytes: number,
  onRead: (file: File) => void
): Promise<string> {
  if (file === undefined || others.length > 0) throw new DocumentTextError('Choose one file at a time.')
  onRead(file)
  return await readDocumentFile(file, maxBytes)
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
