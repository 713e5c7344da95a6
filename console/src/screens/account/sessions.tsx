import type { AccountSession } from '@landfall/client'
import { useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { DangerActions } from '../../components/danger-actions.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Time } from '../../components/format.tsx'
import { announce } from '../../core/announcements.tsx'
import { useAction, useLoad } from '../../core/load.ts'
import { ignoreMissing } from '../../core/missing.ts'
import { landfall } from '../../core/service.ts'
import { takeFirst } from '../../core/take-first.ts'
import { nameUserAgent } from './user-agent.ts'

/** Sessions that are loaded at once. */
const PART = 50

/** Where the account is signed in. */
export function Sessions () {
  const [count, setCount] = useState(PART)
  const [isEndingOthers, setIsEndingOthers] = useState(false)
  const { data, error, isLoading, reload } = useLoad(
    async (signal) => await takeFirst(landfall.auth.sessions({ limit: PART, signal }), count),
    [count]
  )
  const ending = useAction(async ({ id, user_agent: userAgent }: AccountSession) => {
    await landfall.auth.endSession(id).catch(ignoreMissing)
    announce(`Ended: ${nameUserAgent(userAgent)}`)
    reload()
  })
  const hasOthers = data?.items.some(({ current }) => !current) === true
  return (
    <section class='account__section' aria-labelledby='sessions'>
      <h2 id='sessions'>Where you are signed in</h2>
      <p>End the sessions that you don’t recognise, then change your password.</p>
      <ErrorNotice error={ending.error} />
      <ErrorNotice error={error} onRetry={reload} retriesItself />
      {data === undefined && error === undefined && <p class='quiet'>Loading the sessions …</p>}
      <ul class='account-list' aria-busy={isLoading}>
        {data?.items.map((session) => (
          <SessionRow
            session={session}
            isEnding={ending.isRunning}
            onEnd={() => ending.run(session)}
            key={session.id}
          />
        ))}
      </ul>
      {data?.hasMore === true && <Button onClick={() => setCount(count + PART)}>Show older sessions</Button>}
      {hasOthers && <Button onClick={() => setIsEndingOthers(true)}>End all other sessions</Button>}
      {isEndingOthers && (
        <EndOtherSessions
          onEnded={() => {
            setIsEndingOthers(false)
            reload()
          }}
          onClose={() => setIsEndingOthers(false)}
        />
      )}
    </section>
  )
}

interface SessionRowProps {
  readonly session: AccountSession
  readonly isEnding: boolean
  readonly onEnd: () => void
}

function SessionRow ({ session, isEnding, onEnd }: SessionRowProps) {
  const { current, user_agent: userAgent, address, created_at: begun, last_used_at: used } = session
  const name = nameUserAgent(userAgent)
  return (
    <li class='account-list__row'>
      <div class='account-list__what'>
        <strong title={userAgent ?? undefined}>
          <bdi>{name}</bdi>
        </strong>
        {current && <span class='account-list__badge'>this browser</span>}
      </div>
      <p class='account-list__facts'>
        {address !== null && <>From {address},</>} signed in <Time at={begun} />,{' '}
        {used === null ? 'not used yet' : (
          <>
            last used <Time at={used} />
          </>
        )}
      </p>
      {!current && (
        <Button kind='quiet' label={`End the session of ${name}`} isDisabled={isEnding} onClick={onEnd}>
          End
        </Button>
      )}
    </li>
  )
}

interface EndOtherSessionsProps {
  readonly onEnded: () => void
  readonly onClose: () => void
}

function EndOtherSessions ({ onEnded, onClose }: EndOtherSessionsProps) {
  const ending = useAction(async () => {
    await landfall.auth.endOtherSessions()
    announce('All other sessions have ended.')
    onEnded()
  })
  return (
    <Dialog title='End all other sessions?' onClose={onClose} canCancel={!ending.isRunning}>
      <p>
        Everybody who is signed in to your account elsewhere has to sign in again. You stay signed in here.
      </p>
      <DangerActions action={ending} text='End all other sessions' onClose={onClose} />
    </Dialog>
  )
}
