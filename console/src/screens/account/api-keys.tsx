import type { ApiKey } from '@landfall/client'
import { useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Day, Time } from '../../components/format.tsx'
import { useLoad } from '../../core/load.ts'
import { landfall } from '../../core/service.ts'
import { takeFirst } from '../../core/take-first.ts'
import { DeleteKey } from './delete-key.tsx'
import { NewKey } from './new-key.tsx'
import { nameScope } from './scopes.ts'

/** Keys that are loaded at once. An account has at most 100 that have not expired. */
const PART = 100

/** The keys with which programs use the account. */
export function ApiKeys () {
  const [count, setCount] = useState(PART)
  const [isCreating, setIsCreating] = useState(false)
  const [toDelete, setToDelete] = useState<ApiKey>()
  const { data, error, isLoading, reload } = useLoad(
    async (signal) => await takeFirst(landfall.apiKeys.list({ limit: PART, signal }), count),
    [count]
  )
  return (
    <section class='account__section' aria-labelledby='api-keys'>
      <h2 id='api-keys'>API keys</h2>
      <p>
        A program, such as a nightly build, uses your pages and files with a key. It can do no more than you
        allow, and never change your account.
      </p>
      <Button kind='primary' onClick={() => setIsCreating(true)}>New key</Button>
      <ErrorNotice error={error} onRetry={reload} retriesItself />
      {data === undefined && error === undefined && <p class='quiet'>Loading the keys …</p>}
      {data?.items.length === 0 && <p class='quiet'>You have no keys.</p>}
      <ul class='account-list' aria-busy={isLoading}>
        {data?.items.map((key) => <KeyRow apiKey={key} onDelete={() => setToDelete(key)} key={key.id} />)}
      </ul>
      {data?.hasMore === true && <Button onClick={() => setCount(count + PART)}>Show older keys</Button>}
      {isCreating && <NewKey onCreated={reload} onClose={() => setIsCreating(false)} />}
      {toDelete !== undefined && (
        <DeleteKey
          apiKey={toDelete}
          onDeleted={() => {
            setToDelete(undefined)
            reload()
          }}
          onClose={() => setToDelete(undefined)}
        />
      )}
    </section>
  )
}

interface KeyRowProps {
  readonly apiKey: ApiKey
  readonly onDelete: () => void
}

function KeyRow ({ apiKey, onDelete }: KeyRowProps) {
  const { name, scopes, created_at: created, expires_at: expires, last_used_at: used } = apiKey
  const hasExpired = expires !== null && Date.parse(expires) <= Date.now()
  return (
    <li class='account-list__row'>
      <div class='account-list__what'>
        <strong>
          <bdi>{name}</bdi>
        </strong>
        {hasExpired && <span class='account-list__badge'>expired</span>}
      </div>
      <p class='account-list__facts'>
        {scopes.map(nameScope).join('; ')}
        <br />
        Created <Time at={created} />, {used === null ? 'never used' : (
          <>
            last used <Time at={used} />
          </>
        )}
        {expires === null ? ', never expires' : (
          <>
            , {hasExpired ? 'expired' : 'expires'} on <Day at={expires} />
          </>
        )}
      </p>
      <Button kind='quiet' label={`Delete the key ${name}`} onClick={onDelete}>Delete</Button>
    </li>
  )
}
