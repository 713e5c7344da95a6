import { useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { CurrentPasswordField, NewPasswordFields } from '../../components/credential-fields.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Form } from '../../components/form.tsx'
import { announce } from '../../core/announcements.tsx'
import { useAction } from '../../core/load.ts'
import { landfall } from '../../core/service.ts'
import { UsernameForManagers } from './username-for-managers.tsx'

export function ChangePassword () {
  const [current, setCurrent] = useState('')
  const [password, setPassword] = useState('')
  const [confirmation, setConfirmation] = useState('')
  const change = useAction(async () => {
    await landfall.auth.changePassword({
      current_password: current,
      password,
      password_confirmation: confirmation
    })
    for (const set of [setCurrent, setPassword, setConfirmation]) set('')
    announce('Your password is changed. All other sessions, API keys and preview links have ended.')
  })
  return (
    <section class='account__section' aria-labelledby='change-password'>
      <h2 id='change-password'>Change the password</h2>
      <p>
        A new password ends all other sessions and deletes all API keys and preview links of your account.
      </p>
      <Form onSubmit={() => change.run()}>
        <UsernameForManagers />
        <CurrentPasswordField label='Current password' value={current} onInput={setCurrent} />
        <NewPasswordFields
          label='New password'
          password={password}
          onPassword={setPassword}
          confirmation={confirmation}
          onConfirmation={setConfirmation}
        />
        <ErrorNotice error={change.error} />
        <Button type='submit' kind='primary' isBusy={change.isRunning}>Change the password</Button>
      </Form>
    </section>
  )
}
