import t from 'tap'
import { PASSWORD, startServiceOnPostgres } from '../../helpers/app.ts'
import { startBrowser } from '../../helpers/browser.ts'
import { checkScreen, fillSignUp, newProfile, openConsole, signIn, signUpInConsole,
  startOwner } from '../../helpers/console.ts'
import { provide } from '../../shared/programs.ts'

const { url } = await startServiceOnPostgres(t)
const browser = await startBrowser(t, provide('chromium'))

t.test('the form for a new account shows all errors at once', async (t) => {
  const page = await openConsole(await newProfile(t, browser), url)
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  await checkScreen(t, page, 'sign-in')
  await page.getByRole('link', { name: 'Create one' }).click()
  await fillSignUp(page, 'a@example.com', 'short', 'other')
  const alert = page.getByRole('alert')
  await alert.getByText('Password is too short (minimum is 8 characters)').waitFor()
  await alert.getByText('The two passwords are not the same.').waitFor()
  await checkScreen(t, page, 'sign-up')
})

t.test('a person signs out, and signs in again by typing alone', async (t) => {
  const { page, email } = await signUpInConsole(await newProfile(t, browser), url)
  await page.getByRole('link', { name: 'Account' }).click()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('E-mail address').and(page.locator(':focus')).waitFor()
  await page.reload()
  await page.getByLabel('E-mail address').and(page.locator(':focus')).waitFor()
  await page.keyboard.type(email)
  await page.keyboard.press('Tab')
  await page.keyboard.type('wrong password')
  await page.keyboard.press('Enter')
  await page.getByRole('alert').getByText('Invalid email or password').waitFor()
  await page.getByLabel('Password').fill(PASSWORD)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Pages', level: 1 }).waitFor()
})

t.test('a reload and a new tab need no sign-in, and no script can read the refresh token', async (t) => {
  const profile = await newProfile(t, browser)
  const { page } = await signUpInConsole(profile, url)
  await page.reload()
  await page.getByRole('heading', { name: 'Pages', level: 1 }).waitFor()
  const other = await openConsole(profile, url)
  await other.getByRole('heading', { name: 'Pages', level: 1 }).waitFor()
  t.equal(await page.evaluate<string>('document.cookie'), '')
  t.equal(await page.evaluate<number>('localStorage.length + sessionStorage.length'), 0)
  t.match(await profile.cookies(), [{ httpOnly: true, sameSite: 'Strict', path: '/auth/browser_session' }])
})

t.test('a sign-out ends the session of all tabs, and a sign-in starts it in all of them', async (t) => {
  const profile = await newProfile(t, browser)
  const { page, email } = await signUpInConsole(profile, url)
  const other = await openConsole(profile, url, 'assets')
  await other.getByRole('heading', { name: 'Assets', level: 1 }).waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  const dialog = other.getByRole('dialog', { name: 'Your session has ended' })
  await dialog.waitFor()
  await dialog.getByLabel('Password').and(other.locator(':focus')).waitFor()
  await checkScreen(t, other, 'sign-in over a screen')
  await signIn(page, email)
  await dialog.waitFor({ state: 'detached' })
  await other.getByRole('heading', { name: 'Assets', level: 1 }).waitFor()
})

t.test('many tabs that are opened at once share the session', async (t) => {
  const profile = await newProfile(t, browser)
  await signUpInConsole(profile, url)
  const tabs = await Promise.all(Array.from({ length: 8 }, async () => await openConsole(profile, url)))
  for (const tab of tabs) await tab.getByRole('heading', { name: 'Pages', level: 1 }).waitFor()
})

t.test('another account in another tab never shows its pages among those of the first', async (t) => {
  const profile = await newProfile(t, browser)
  const { page, email } = await signUpInConsole(profile, url)
  const other = await openConsole(profile, url)
  await other.getByRole('button', { name: 'Sign out' }).click()
  await signUpInConsole(profile, url)
  const dialog = page.getByRole('dialog', { name: 'Your session has ended' })
  await dialog.waitFor()
  const address = dialog.getByLabel('E-mail address')
  t.equal(await address.inputValue(), email)
  t.equal(await address.isEditable(), false)
  await dialog.getByRole('button', { name: 'Use another account' }).click()
  await page.getByRole('heading', { name: 'Sign in', level: 1 }).waitFor()
  t.equal(await address.count(), 0)
  t.ok(await page.getByLabel('E-mail address').isEditable())
})

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
  const { owner, profile, tab: page } = await startOwner(t, browser, url)
  const other = await openConsole(profile, url, 'assets')
  await other.getByRole('heading', { name: 'Assets', level: 1 }).waitFor()
  t.equal((await owner.call('DELETE', `${url}/auth/sessions`)).status, 204)
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
