import t from 'tap'
import { PASSWORD, startServiceOnPostgres } from '../../helpers/app.ts'
import { startBrowser } from '../../helpers/browser.ts'
import { newProfile, openConsole, signUpInConsole } from '../../helpers/console.ts'
import { provide } from '../../shared/programs.ts'

// Sessions that are renewed in the middle of a reload, or are ended elsewhere. sign-in.test.ts has the rest.

const { url } = await startServiceOnPostgres(t)
const browser = await startBrowser(t, provide('chromium'))

t.test('a session outlives reloads in the middle of its renewal', async (t) => {
  const { page } = await signUpInConsole(await newProfile(t, browser), url)
  for (let round = 0; round < 10; round++) {
    const renewal = page.waitForRequest('**/auth/browser_session')
    await page.reload({ waitUntil: 'commit' })
    await renewal
  }
  await page.getByRole('heading', { name: 'Pages', level: 1 }).waitFor()
})

t.test('a session that was ended elsewhere is continued after a sign-in, in all tabs', async (t) => {
  const profile = await newProfile(t, browser)
  const { page, email } = await signUpInConsole(profile, url)
  const other = await openConsole(profile, url, 'assets')
  await other.getByRole('heading', { name: 'Assets', level: 1 }).waitFor()
  const body = JSON.stringify({ user: { email, password: PASSWORD } })
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(`${url}/auth/sign_in`, { method: 'POST', headers, body })
  const { access_token: token } = await response.json() as { access_token: string }
  const bearer = { authorization: `Bearer ${token}` }
  const ended = await fetch(`${url}/auth/sessions`, { method: 'DELETE', headers: bearer })
  t.equal(ended.status, 204)
  for (const tab of [page, other]) {
    await tab.getByRole('link', { name: tab === page ? 'Assets' : 'Pages' }).click()
    await tab.getByRole('dialog').waitFor()
  }
  await page.getByRole('dialog').getByLabel('Password').fill('wrong password')
  await page.getByRole('dialog').getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('dialog').getByRole('alert').getByText('Invalid email or password').waitFor()
  await page.getByRole('dialog').getByLabel('Password').fill(PASSWORD)
  await page.getByRole('dialog').getByRole('button', { name: 'Sign in' }).click()
  for (const tab of [page, other]) await tab.getByRole('dialog').waitFor({ state: 'detached' })
  // What could not be loaded meanwhile is loaded now.
  await page.getByRole('heading', { name: 'Upload your first file' }).waitFor()
  await other.getByRole('heading', { name: 'Create your first page' }).waitFor()
})
