import { LandfallError, type Webhook } from '@landfall/client'
import { useState } from 'preact/hooks'
import { Button } from '../../../components/button.tsx'
import { Actions, Dialog } from '../../../components/dialog.tsx'
import { ErrorNotice, inOwnWords } from '../../../components/error-notice.tsx'
import { Choice, Choices, Field } from '../../../components/field.tsx'
import { Form } from '../../../components/form.tsx'
import { ShownOnce } from '../../../components/shown-once.tsx'
import { announce } from '../../../core/announcements.tsx'
import { useAction } from '../../../core/load.ts'
import { navigate } from '../../../core/router.ts'
import { landfall } from '../../../core/service.ts'
import { PagesChoice } from './pages-choice.tsx'
import { EVENTS, type EventName } from './words.tsx'

const NAME_MAX = 100
const URL_MAX = 2048
const BATCHES = [
  ['At once', 0],
  ['After 1 minute', 60],
  ['After 5 minutes', 300],
  ['After 1 hour', 3600]
] as const

/** As the sentences of the service begin. */
const FIELDS = ['Url', 'Name', 'Events', 'Pages'] as const

type CreatedWebhook = Awaited<ReturnType<typeof landfall.webhooks.create>>

interface WebhookDialogProps {
  /** The one to change; undefined for a new one. */
  readonly webhook?: Webhook
  readonly onSaved: () => void
  readonly onClose: () => void
}

/** Creates a webhook and shows its secret this once, or changes one. */
export function WebhookDialog ({ webhook, onSaved, onClose }: WebhookDialogProps) {
  const [created, setCreated] = useState<CreatedWebhook>()
  if (created === undefined) {
    return (
      <Dialog title={webhook === undefined ? 'New webhook' : 'Edit the webhook'} onClose={onClose}>
        <WebhookForm webhook={webhook} onCreated={setCreated} onSaved={onSaved} onClose={onClose} />
      </Dialog>
    )
  }
  const leave = () => {
    onClose()
    navigate('account', 'webhooks', created.id)
  }
  return <SecretDialog secret={created.secret} onClose={leave} />
}

interface WebhookFormProps extends WebhookDialogProps {
  readonly webhook: Webhook | undefined
  readonly onCreated: (created: CreatedWebhook) => void
}

function WebhookForm ({ webhook, onCreated, onSaved, onClose }: WebhookFormProps) {
  const [url, setUrl] = useState(webhook?.url ?? '')
  const [name, setName] = useState(webhook?.name ?? '')
  const [events, setEvents] = useState<
    readonly EventName[]
  >(webhook?.events ?? EVENTS.map(([event]) => event))
  const [pages, setPages] = useState(webhook?.pages ?? null)
  const [batchSeconds, setBatchSeconds] = useState(webhook?.batch_seconds ?? 0)
  const saving = useAction(async () => {
    const fields = {
      url: url.trim(),
      name: name.trim() === '' ? null : name,
      events: [...events],
      pages,
      batch_seconds: batchSeconds
    }
    if (webhook === undefined) onCreated(await landfall.webhooks.create(fields))
    else {
      await landfall.webhooks.change(webhook.id, fields)
      announce('Saved.')
      onClose()
    }
    onSaved()
  })
  const errors = splitErrors(saving.error)
  const isOther = BATCHES.every(([, seconds]) => seconds !== batchSeconds)
  return (
    <Form onSubmit={() => saving.run()}>
      <Field
        label='URL'
        hint='Where messages are sent. It begins with https://, or with http:// where your service allows that.'
        value={url}
        onInput={setUrl}
        error={errors.of('Url')}
        maxLength={URL_MAX}
        isRequired
        hasAutofocus
      />
      <Field
        label='Name'
        hint='For your list, such as “Website build”.'
        value={name}
        onInput={setName}
        error={errors.of('Name')}
        maxLength={NAME_MAX}
      />
      <Choices
        label='Send a message when'
        options={EVENTS}
        chosen={events}
        onChange={setEvents}
        error={errors.of('Events')}
      />
      <PagesChoice pages={pages} onChange={setPages} error={errors.of('Pages')} />
      <Choice
        label='How soon'
        value={batchSeconds}
        options={isOther ? [...BATCHES, [`After ${batchSeconds} seconds`, batchSeconds]] : BATCHES}
        onChange={setBatchSeconds}
      />
      <p class='field__hint'>
        At once, each change of a page sends a message. Otherwise changes are collected, and one message
        speaks for all of them: good for a build that takes a while.
      </p>
      <ErrorNotice error={errors.rest} />
      <Actions>
        <Button type='submit' kind='primary' isBusy={saving.isRunning}>
          {webhook === undefined ? 'Create the webhook' : 'Save'}
        </Button>
        <Button onClick={onClose} isDisabled={saving.isRunning}>Cancel</Button>
      </Actions>
    </Form>
  )
}

/** The problems of fields, each for its field, and every other error. */
function splitErrors (error: unknown) {
  const sentences = error instanceof LandfallError && error.status === 422 ? error.errors : []
  const at = (field: string) => sentences.filter((sentence) => sentence.startsWith(`${field} `))
  const areAllAtFields = sentences.length > 0 && FIELDS.flatMap(at).length === sentences.length
  return {
    of: (field: typeof FIELDS[number]) => at(field).map(inOwnWords).join('. ') || undefined,
    rest: areAllAtFields ? undefined : error
  }
}

interface SecretDialogProps {
  readonly secret: string
  /** Whether the old secret stays valid for a day. */
  readonly isNext?: boolean
  readonly onClose: () => void
}

/** Shows a new secret, which would be lost if it was not copied. */
export function SecretDialog ({ secret, isNext = false, onClose }: SecretDialogProps) {
  return (
    <Dialog title='The secret of the webhook' onClose={onClose} canCancel={false}>
      <ShownOnce text={secret} what='secret' />
      <p>
        Give it to the people who run the receiver. With it, the receiver checks that a message comes from
        here: they enter it in its settings, and never in a web page.
      </p>
      {isNext && <p>For 24 hours, messages are signed with the old secret, too.</p>}
      <Actions>
        <Button kind='primary' onClick={onClose}>I have copied it</Button>
      </Actions>
    </Dialog>
  )
}
