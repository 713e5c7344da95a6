import { useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { CurrentPasswordField } from '../../components/credential-fields.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Form } from '../../components/form.tsx'
import { announce } from '../../core/announcements.tsx'
import { useAction } from '../../core/load.ts'
import { navigate } from '../../core/router.ts'
import { landfall } from '../../core/service.ts'
import { leave } from '../../core/tabs.ts'
import { UsernameForManagers } from './username-for-managers.tsx'

export function DeleteAccount () {
  const [password, setPassword] = useState('')
  const deletion = useAction(async () => {
    await landfall.auth.deleteAccount(password)
    navigate('sign-in')
    leave()
    announce('Your account and everything in it is deleted.')
  })
  return (
    <section class='account__section' aria-labelledby='delete-account'>
      <h2 id='delete-account'>Delete the account</h2>
      <div class='notice notice--error'>
        <p>This deletes at once, and nobody can undo it:</p>
        <ul>
          <li>all your pages with their versions and read counts: visitors get “Not found”</li>
          <li>all your assets, also where other web sites show them</li>
          <li>all your webhooks, preview links, API keys and sessions, on all devices</li>
        </ul>
      </div>
      <Form onSubmit={() => deletion.run()}>
        <UsernameForManagers />
        <CurrentPasswordField label='Your password' value={password} onInput={setPassword} />
        <ErrorNotice error={deletion.error} />
        <Button type='submit' kind='danger' isBusy={deletion.isRunning}>
          Delete my account and everything in it
        </Button>
      </Form>
    </section>
  )
}
