import type { Scope } from '@landfall/client'
import { useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { CopyButton } from '../../components/copy-button.tsx'
import { Actions, Dialog } from '../../components/dialog.tsx'
import { CurrentPasswordField } from '../../components/credential-fields.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Choice, Choices, Field } from '../../components/field.tsx'
import { Form } from '../../components/form.tsx'
import { ShownOnce } from '../../components/shown-once.tsx'
import { useAction } from '../../core/load.ts'
import { landfall } from '../../core/service.ts'
import { useSettings } from '../../core/settings.ts'
import { curlCommand, SCOPES } from './scopes.ts'
import { UsernameForManagers } from './username-for-managers.tsx'

const DAY_MS = 86_400_000
/** The name of each validity, and its days. */
const VALIDITIES = [['30 days', 30], ['90 days', 90], ['One year', 365], [
  'Until it is deleted',
  undefined
]] as const
const NAME_MAX = 100

type CreatedKey = Awaited<ReturnType<typeof landfall.apiKeys.create>>

interface NewKeyProps {
  readonly onCreated: () => void
  readonly onClose: () => void
}

/** Creates a key, and shows it this once. */
export function NewKey ({ onCreated, onClose }: NewKeyProps) {
  const [key, setKey] = useState<CreatedKey>()
  return (
    // A key that was not copied would be lost.
    <Dialog
      title={key === undefined ? 'New key' : 'Your new key'}
      onClose={onClose}
      canCancel={key === undefined}
    >
      {key === undefined ? (
        <NewKeyForm
          onCreated={(created) => {
            setKey(created)
            onCreated()
          }}
          onClose={onClose}
        />
      ) : <ShownKey created={key} onClose={onClose} />}
    </Dialog>
  )
}

interface NewKeyFormProps {
  readonly onCreated: (created: CreatedKey) => void
  readonly onClose: () => void
}

function NewKeyForm ({ onCreated, onClose }: NewKeyFormProps) {
  const [name, setName] = useState('')
  const [scopes, setScopes] = useState<readonly Scope[]>(['pages:read'])
  const [days, setDays] = useState<number | undefined>(90)
  const [password, setPassword] = useState('')
  const creation = useAction(async () => {
    const created = await landfall.apiKeys.create({
      name,
      scopes,
      expires_at: days === undefined ? undefined : new Date(Date.now() + days * DAY_MS),
      current_password: password
    })
    onCreated(created)
  })
  return (
    <Form onSubmit={() => creation.run()}>
      <UsernameForManagers />
      <Field
        label='Name'
        hint='What the key is for, such as “Nightly build”.'
        value={name}
        onInput={setName}
        maxLength={NAME_MAX}
        isRequired
      />
      <Choices label='What it may do' options={SCOPES} chosen={scopes} onChange={setScopes} />
      <Choice label='Valid for' value={days} options={VALIDITIES} onChange={setDays} />
      <CurrentPasswordField label='Your password' value={password} onInput={setPassword} />
      <ErrorNotice error={creation.error} />
      <Actions>
        <Button type='submit' kind='primary' isBusy={creation.isRunning}>Create the key</Button>
        <Button onClick={onClose} isDisabled={creation.isRunning}>Cancel</Button>
      </Actions>
    </Form>
  )
}

interface ShownKeyProps {
  readonly created: CreatedKey
  readonly onClose: () => void
}

function ShownKey ({ created: { key, scopes }, onClose }: ShownKeyProps) {
  const { base_url: baseUrl } = useSettings()
  const command = curlCommand(baseUrl, key, scopes)
  return (
    <>
      <ShownOnce text={key} what='key' />
      <p>A program sends it with each request, for example:</p>
      <p class='copyable'>
        <code>{command}</code>
        <CopyButton text={command} what='curl command' />
      </p>
      <p>Keep it where the program keeps its secrets, and never in a web page.</p>
      <Actions>
        <Button kind='primary' onClick={onClose}>I have copied it</Button>
      </Actions>
    </>
  )
}
