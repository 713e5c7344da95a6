import type { Delivery } from '@landfall/client'
import { useEffect } from 'preact/hooks'
import { Button } from '../../../components/button.tsx'
import { ErrorNotice } from '../../../components/error-notice.tsx'
import { formatNumber, Time } from '../../../components/format.tsx'
import { announce } from '../../../core/announcements.tsx'
import { useAction } from '../../../core/load.ts'
import { href } from '../../../core/router.ts'
import { landfall } from '../../../core/service.ts'
import { onReturn } from '../../../core/visibility.ts'
import { DELIVERY_STATES, MESSAGE_TYPES } from './words.tsx'

const POLL_MS = 3000
/** While nothing is sent soon. */
const MAX_POLL_MS = 60_000

interface DeliveriesProps {
  /** The id of the webhook. */
  readonly id: string
  readonly items: readonly Delivery[]
  readonly reload: () => void
}

/** The messages of a webhook, newest first. */
export function Deliveries ({ id, items, reload }: DeliveriesProps) {
  const redelivering = useAction(async (delivery: Delivery) => {
    await landfall.webhooks.redeliver(id, delivery.id)
    announce(delivery.page === null ? 'It is sent again.' : 'The current state of the page is sent.')
    reload()
  })
  return (
    <section class='account__section' aria-labelledby='messages'>
      <h2 id='messages'>Messages</h2>
      <ErrorNotice error={redelivering.error} />
      {items.length === 0 && <p class='quiet'>Nothing was sent yet. Try it with a test.</p>}
      <ol class='account-list'>
        {items.map((delivery) => (
          <DeliveryRow
            delivery={delivery}
            isBusy={redelivering.isRunning}
            onRedeliver={() => redelivering.run(delivery)}
            key={delivery.id}
          />
        ))}
      </ol>
    </section>
  )
}

interface DeliveryRowProps {
  readonly delivery: Delivery
  readonly isBusy: boolean
  readonly onRedeliver: () => unknown
}

function DeliveryRow ({ delivery, isBusy, onRedeliver }: DeliveryRowProps) {
  const { type, state, page, version, merged, created_at: createdAt } = delivery
  const isFinished = state === 'delivered' || state === 'failed'
  return (
    <li class='account-list__row'>
      <div class='account-list__what'>
        <strong>{MESSAGE_TYPES[type] ?? type}</strong>
        <span class='account-list__badge'>{DELIVERY_STATES[state]}</span>
      </div>
      <p class='account-list__facts'>
        <Time at={createdAt} />
        {page !== null && (
          <>
            , page <a href={href('pages', page.id)}>{page.public_id}</a>, version {version}
          </>
        )}
        {merged > 0 && `, ${formatNumber(merged + 1)} changes in one message`}
        <br />
        <Outcome delivery={delivery} />
      </p>
      {isFinished && (
        <Button
          kind='quiet'
          label={`Redeliver ${MESSAGE_TYPES[type] ?? type}`}
          isDisabled={isBusy}
          onClick={onRedeliver}
        >
          Redeliver
        </Button>
      )}
    </li>
  )
}

/** What became of the attempts to send a message, and what comes next. */
function Outcome ({ delivery }: { readonly delivery: Delivery }) {
  const { state, attempts, status, error, last_attempt_at: last, duration_ms: duration } = delivery
  return (
    <>
      {attempts > 0 && `${attempts} ${attempts === 1 ? 'attempt' : 'attempts'}`}
      {attempts > 1 && last !== null && (
        <>
          , the last one <Time at={last} />
        </>
      )}
      {error !== null && `. ${error}.`}
      {status !== null && status >= 300 && status < 400 && ' Redirects aren’t followed.'}
      {error === null && status !== null && `, status ${status}`}
      {error === null && duration !== null && ` after ${formatNumber(duration)} ms`}
      {state === 'waiting' && (
        <>
          {attempts > 0 && error === null ? '. ' : ' '}
          <NextAttempt at={delivery.next_attempt_at} />
        </>
      )}
    </>
  )
}

function NextAttempt ({ at }: { readonly at: string | null }) {
  if (at === null) return <>It waits until the webhook is resumed.</>
  if (Date.parse(at) - Date.now() < MAX_POLL_MS) return <>It is sent within a minute.</>
  return (
    <>
      The next attempt is <Time at={at} />.
    </>
  )
}

/** Loads the messages again while one is being sent, or waits for its time. */
export function usePolling (items: readonly Delivery[] | undefined, reload: () => void): void {
  useEffect(() => {
    const delays = items?.flatMap(({ state, next_attempt_at: next }) => {
      if (state === 'sending') return POLL_MS
      return state === 'waiting' && next !== null ? Date.parse(next) - Date.now() : []
    }) ?? []
    if (delays.length === 0) return
    const look = () => {
      if (document.visibilityState === 'visible') reload()
    }
    const timer = setTimeout(look, Math.min(Math.max(POLL_MS, Math.min(...delays)), MAX_POLL_MS))
    const stopListening = onReturn(look)
    return () => {
      clearTimeout(timer)
      stopListening()
    }
  }, [items])
}
