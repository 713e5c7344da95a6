import t from 'tap'
import { startServiceOnPostgres } from '../../helpers/app.ts'
import { startBrowser } from '../../helpers/browser.ts'
import { checkScreen, newProfile, signIn, signUpInConsole } from '../../helpers/console.ts'
import { startMailServer } from '../../helpers/mail-server.ts'
import { provide } from '../../shared/programs.ts'
import { freePort } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'

// What the console does with mail: confirming an address, and a forgotten password.

const NEW_PASSWORD = 'a brand-new staple'

const mail = await startMailServer(t)
const port = String(await freePort())
const url = `http://localhost:${port}`
await startServiceOnPostgres(t, {
  ...mail.settings,
  PORT: port,
  BASE_URL: url,
  REQUIRE_CONFIRMED_EMAIL: 'true'
})
const browser = await startBrowser(t, provide('chromium'))

/** Waits for the mail number `count` to an address with a subject, and returns its link. */
const linkIn = async (email: string, subject: string, count = 1): Promise<string> =>
  await until(() => {
    const found = mail.mails.filter(({ to, headers }) => to.includes(email) && headers.subject === subject)
    return /^http\S+$/m.exec(found[count - 1]?.text ?? '')?.[0]
  })

t.test('a new owner is asked to confirm the address, and can have the mail sent again', async (t) => {
  const profile = await newProfile(t, browser)
  const { page, email } = await signUpInConsole(profile, url)
  const banner = page.getByRole('region', { name: 'Your e-mail address' })
  await banner.getByText(`open the link in the mail to ${email}`).waitFor()
  await banner.getByText('Confirming signs you out here and everywhere else').waitFor()
  await checkScreen(t, page, 'an address that is not confirmed')
  await banner.getByRole('button', { name: 'Send the mail again' }).click()
  await page.getByRole('status').getByText(`A mail is on its way to ${email}.`).waitFor()
  await page.getByRole('button', { name: 'New page' }).click()
  await page.getByRole('button', { name: 'Create the page' }).click()
  await page.getByRole('alert').getByText(/^Confirm your address first: open the link/).waitFor()
  await page.getByRole('button', { name: 'Cancel' }).click()

  const tab = await profile.newPage()
  await tab.goto(await linkIn(email, 'Confirm your email address', 2)) // a newer link ends older ones
  await tab.getByRole('button', { name: 'Confirm this address' }).click()
  await tab.getByRole('link', { name: 'Open the console' }).click()
  await tab.getByRole('heading', { name: 'Sign in' }).waitFor()
  await page.evaluate("location.hash = '#/account/sessions'")
  await page.getByRole('dialog', { name: 'Your session has ended' }).waitFor()
})

t.test('a person who has forgotten the password gets a link, and signs in with a new one', async (t) => {
  const { page, email } = await signUpInConsole(await newProfile(t, browser), url)
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('link', { name: 'Forgotten your password?' }).click()
  await page.getByRole('heading', { name: 'Forgotten password' }).waitFor()
  await checkScreen(t, page, 'forgotten password')
  await page.getByLabel('E-mail address').fill(email)
  await page.getByRole('button', { name: 'Send me a link' }).click()
  await page.getByRole('status').getByText(`If ${email} has an account`).waitFor()

  await page.goto(await linkIn(email, 'Reset your password'))
  await page.getByLabel('New password', { exact: true }).fill(NEW_PASSWORD)
  await page.getByLabel('New password, repeated').fill(NEW_PASSWORD)
  await page.getByRole('button', { name: 'Change the password' }).click()
  await page.getByRole('link', { name: 'Open the console' }).click()
  await signIn(page, email, NEW_PASSWORD)
  await page.getByRole('heading', { name: 'Pages', level: 1 }).waitFor()
})

t.test('the account shows whether the address is confirmed, and has the mail sent again', async (t) => {
  const { page, email } = await signUpInConsole(await newProfile(t, browser), url)
  await page.goto(`${url}/console/#/account/email`)
  const main = page.getByRole('main')
  await main.getByText('It is not confirmed yet.').waitFor()
  await main.getByText('Confirming signs you out here and everywhere else').waitFor()
  await checkScreen(t, page, 'e-mail address')
  await main.getByRole('button', { name: 'Send me another mail' }).click()
  await page.getByRole('status').getByText(`A mail is on its way to ${email}.`).waitFor()
  const token = await mail.linkTo(email, 2)
  await fetch(`${url}/auth/email_confirmations`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token })
  })
  await page.reload()
  await signIn(page, email)
  await main.getByText(/^You confirmed it/).waitFor()
  t.equal(await main.getByRole('button', { name: 'Send me another mail' }).count(), 0)
})
