import { LandfallError } from '@landfall/client'
import { useState } from 'preact/hooks'
import { Button } from '../../components/button.tsx'
import { ErrorNotice } from '../../components/error-notice.tsx'
import { Field } from '../../components/field.tsx'
import { Form } from '../../components/form.tsx'
import { announce } from '../../core/announcements.tsx'
import { useAction, useLoad } from '../../core/load.ts'
import { landfall } from '../../core/service.ts'
import { useSettings } from '../../core/settings.ts'

const REFUSED =
  'The console can’t open this address. After the name of the website it may contain {public_id} and ' +
  '{token}, but no other braces, and no spaces.'

/** The website on which the pages are shown. */
export function MySite () {
  const { preview_url: common } = useSettings()
  const { data, error, reload } = useLoad(async (signal) => await landfall.auth.getSettings({ signal }), [])
  return (
    <section class='account__section' aria-labelledby='my-site'>
      <h2 id='my-site'>My site</h2>
      <p>Where does your website show a page? Then “View the page” opens it there.</p>
      <ErrorNotice error={error} onRetry={reload} retriesItself />
      {data !== undefined && <AddressForm saved={data.preview_url ?? ''} />}
      {common !== null && (
        <p class='quiet'>
          Without an address of your own, the link leads to <code>{common}</code>.
        </p>
      )}
    </section>
  )
}

function AddressForm ({ saved }: { readonly saved: string }) {
  const [address, setAddress] = useState(saved)
  const saving = useAction(async () => {
    const trimmed = address.trim()
    if (trimmed !== '' && !/^https?:\/\//i.test(trimmed)) {
      throw new Error(`Begin the address with https://: https://${trimmed}`)
    }
    try {
      await landfall.auth.putSettings({ preview_url: trimmed === '' ? null : trimmed })
    } catch (error) {
      throw error instanceof LandfallError && error.status === 422 ? new Error(REFUSED) : error
    }
    announce(trimmed === '' ? 'The address is removed.' : 'Saved. “View the page” opens your website now.')
  })
  return (
    <Form onSubmit={() => saving.run()}>
      <Field
        label='Address of a page on your website'
        hint={'For example https://www.example.com/sale/{public_id}. Write {public_id} where the address ' +
          'differs from page to page: the console puts the public id of the page there, which the list of ' +
          'pages shows in the details. If your website has only one page, leave it out. If it can show ' +
          'drafts, write {token} where it takes the token of a preview link.'}
        value={address}
        onInput={setAddress}
      />
      <ErrorNotice error={saving.error} />
      <Button type='submit' kind='primary' isBusy={saving.isRunning}>Save</Button>
    </Form>
  )
}
