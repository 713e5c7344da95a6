import type { Webhook } from '@landfall/client'
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { Button } from '../../../components/button.tsx'
import { DangerActions } from '../../../components/danger-actions.tsx'
import { Actions, Dialog } from '../../../components/dialog.tsx'
import { ErrorNotice } from '../../../components/error-notice.tsx'
import { Moment } from '../../../components/format.tsx'
import { announce } from '../../../core/announcements.tsx'
import { useAction, useLoad } from '../../../core/load.ts'
import { ignoreMissing, isMissing } from '../../../core/missing.ts'
import { href, navigate } from '../../../core/router.ts'
import { landfall } from '../../../core/service.ts'
import { takeFirst } from '../../../core/take-first.ts'
import { Deliveries, usePolling } from './deliveries.tsx'
import { pauseReason, webhookName, WebhookState } from './words.tsx'
import { SecretDialog, WebhookDialog } from './webhook-dialog.tsx'

/** Messages that are loaded at once. */
const PART = 20

const BackLink = () => <a href={href('account', 'webhooks')}>All webhooks</a>

/** A webhook: what can be done with it, and what became of its messages. */
export function WebhookDetails ({ id }: { readonly id: string }) {
  const [count, setCount] = useState(PART)
  const { data, error, isLoading, reload } = useLoad(async (signal) => {
    const [webhook, messages] = await Promise.all([
      landfall.webhooks.get(id, { signal }),
      takeFirst(landfall.webhooks.deliveries(id, { limit: PART, signal }), count)
    ])
    return { webhook, messages }
  }, [id, count])
  usePolling(data?.messages.items, reload)
  if (isMissing(error)) {
    return (
      <p>
        This webhook was deleted, or isn’t yours. <BackLink />
      </p>
    )
  }
  return (
    <>
      <p>
        <BackLink />
      </p>
      <ErrorNotice error={error} onRetry={reload} retriesItself />
      {data === undefined && error === undefined && <p class='quiet'>Loading the webhook …</p>}
      {data !== undefined && (
        <>
          <About webhook={data.webhook} reload={reload} />
          <Deliveries id={id} {...data.messages} reload={reload} />
          {data.messages.hasMore && (
            <Button isBusy={isLoading} onClick={() => setCount(count + PART)}>Show older messages</Button>
          )}
        </>
      )}
    </>
  )
}

interface AboutProps {
  readonly webhook: Webhook
  readonly reload: () => void
}

function About ({ webhook, reload }: AboutProps) {
  const { id, name, url, active, failing_since: failingSince } = webhook
  const [asked, setAsked] = useState<'edit' | 'secret' | 'sync' | 'delete'>()
  const close = () => setAsked(undefined)
  const testing = useAction(async () => {
    await landfall.webhooks.test(id)
    announce('A test is on its way. Its result is shown below.')
    reload()
  })
  const pausing = useAction(async () => {
    await landfall.webhooks.change(id, { active: !active })
    announce(active ? 'Paused. Messages wait until you resume it.' : 'Resumed. What has waited is sent now.')
    reload()
  })
  return (
    <section class='account__section' aria-labelledby='webhook'>
      <h2 id='webhook'>
        <bdi>{webhookName(webhook)}</bdi> <WebhookState webhook={webhook} />
      </h2>
      {name !== null && <p class='webhook-url quiet'>{url}</p>}
      <p>
        {pauseReason(webhook)}
        {active && failingSince !== null && (
          <>
            Messages have not got through since{' '}
            <Moment at={failingSince} />. They are tried again for three days.
          </>
        )}
      </p>
      <Actions>
        <Button isBusy={testing.isRunning} onClick={() => testing.run()}>Send a test</Button>
        <Button isBusy={pausing.isRunning} onClick={() => pausing.run()}>
          {active ? 'Pause' : 'Resume'}
        </Button>
        <Button onClick={() => setAsked('edit')}>Edit</Button>
        <Button onClick={() => setAsked('secret')}>New secret</Button>
        <Button onClick={() => setAsked('sync')}>Send the state of every page</Button>
        <Button onClick={() => setAsked('delete')}>Delete</Button>
      </Actions>
      <ErrorNotice error={testing.error ?? pausing.error} />
      {asked === 'edit' && <WebhookDialog webhook={webhook} onSaved={reload} onClose={close} />}
      {asked === 'secret' && <NewSecret id={id} onClose={close} />}
      {asked === 'sync' && (
        <Question
          title='Send the state of every page?'
          text='Send'
          act={async () => {
            const queued = await landfall.webhooks.sync(id)
            announce(queued === 1 ? '1 message is on its way.' : `${queued} messages are on their way.`)
            close()
            reload()
          }}
          onClose={close}
        >
          <p>
            The receiver gets a message about each page that the webhook is about{webhook.batch_seconds > 0 &&
              ', as one message for all of them'}. That helps a receiver that has lost messages.
          </p>
        </Question>
      )}
      {asked === 'delete' && (
        <Question
          title='Delete this webhook?'
          text='Delete the webhook'
          act={async () => {
            await landfall.webhooks.delete(id).catch(ignoreMissing)
            announce(`Deleted: ${webhookName(webhook)}`)
            navigate('account', 'webhooks')
          }}
          onClose={close}
        >
          <p>
            The receiver gets no more messages, not even those that wait, and the list of messages is deleted.
            This can’t be undone.
          </p>
        </Question>
      )}
    </section>
  )
}

interface NewSecretProps {
  readonly id: string
  readonly onClose: () => void
}

function NewSecret ({ id, onClose }: NewSecretProps) {
  const [secret, setSecret] = useState<string>()
  if (secret !== undefined) return <SecretDialog secret={secret} isNext onClose={onClose} />
  return (
    <Question
      title='Make a new secret?'
      text='Make a new secret'
      act={async () => setSecret(await landfall.webhooks.replaceSecret(id))}
      onClose={onClose}
    >
      <p>
        For 24 hours, messages are signed with the old secret and the new one. By then the receiver needs the
        new one.
      </p>
    </Question>
  )
}

interface QuestionProps {
  readonly title: string
  /** The label of the button. */
  readonly text: string
  readonly children: ComponentChildren
  readonly act: () => Promise<unknown>
  readonly onClose: () => void
}

/** Asks before something is done that can't be undone. */
function Question ({ title, text, children, act, onClose }: QuestionProps) {
  const action = useAction(act)
  return (
    <Dialog title={title} onClose={onClose} canCancel={!action.isRunning}>
      {children}
      <DangerActions action={action} text={text} onClose={onClose} />
    </Dialog>
  )
}
