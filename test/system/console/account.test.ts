import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { PASSWORD, startServiceOnPostgres } from '../../helpers/app.ts'
import { startBrowser } from '../../helpers/browser.ts'
import { call } from '../../helpers/client.ts'
import { checkScreen, fillSignUp, newProfile, openConsole, signIn, signUpInConsole,
  startOwner } from '../../helpers/console.ts'
import { provide } from '../../shared/programs.ts'
import { until } from '../../helpers/until.ts'

// The account: password, sessions, API keys, e-mail address, deletion; signing up, in and out.

const NEW_PASSWORD = 'a brand-new staple'
const { url } = await startServiceOnPostgres(t)
const browser = await startBrowser(t, provide('chromium'))

/** Opens a section of the account of a new user. */
async function openSection (t: Test, section: string) {
  const profile = await newProfile(t, browser)
  const { page, email } = await signUpInConsole(profile, url)
  await page.getByRole('link', { name: 'Account', exact: true }).click()
  await page.getByRole('link', { name: section, exact: true }).click()
  await page.getByRole('heading', { name: 'Account', level: 1 }).waitFor()
  return { page, email, profile }
}

/** Signs a person in on another device, with a browser that calls itself by this name. */
async function signInElsewhere (t: Test, email: string, userAgent?: string): Promise<Page> {
  const profile = await newProfile(t, browser, userAgent === undefined ? {} : { userAgent })
  const page = await openConsole(profile, url)
  await signIn(page, email)
  await page.getByRole('heading', { name: 'Pages', level: 1 }).waitFor()
  return page
}

const isSignedOut = async (page: Page): Promise<void> => {
  await page.reload()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
}

t.test('a person changes the password, and stays signed in here only', async (t) => {
  const { page, email } = await openSection(t, 'Password')
  const other = await signInElsewhere(t, email)
  await checkScreen(t, page, 'password')
  const fill = async (current: string, password: string, repeated = password) => {
    await page.getByLabel('Current password').fill(current)
    await page.getByLabel('New password', { exact: true }).fill(password)
    await page.getByLabel('New password, repeated').fill(repeated)
    await page.getByRole('button', { name: 'Change the password' }).click()
  }
  await fill(PASSWORD, 'short', 'other')
  await page.getByRole('alert').getByText('Password is too short (minimum is 8 characters)').waitFor()
  await checkScreen(t, page, 'a refused password')
  await fill('not the password', NEW_PASSWORD)
  await page.getByRole('alert').getByText('Your current password is wrong.').waitFor()
  await fill(PASSWORD, NEW_PASSWORD)
  await page.getByRole('status')
    .getByText('All other sessions, API keys and preview links have ended.')
    .waitFor()
  t.equal(await page.getByLabel('Current password').inputValue(), '')
  await page.reload()
  await page.getByRole('heading', { name: 'Account', level: 1 }).waitFor()
  await isSignedOut(other)
  const user = { email, password: NEW_PASSWORD }
  t.equal((await call('POST', `${url}/auth/sign_in`, { json: { user } })).status, 200)
})

t.test('a person sees the sessions, ends one, and then all others', async (t) => {
  const { page, email } = await openSection(t, 'Password')
  const phone = await signInElsewhere(
    t,
    email,
    'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Mobile ' +
      'Safari/604.1'
  )
  const others = [await signInElsewhere(t, email), await signInElsewhere(t, email)]
  await page.getByRole('link', { name: 'Sessions' }).click()
  const rows = page.getByRole('main').getByRole('listitem')
  await rows.nth(3).waitFor()
  t.match(await rows.filter({ hasText: 'this browser' }).innerText(), /Chrome on Linux[^]*signed in/)
  t.equal(await rows.filter({ hasText: 'this browser' }).getByRole('button').count(), 0)
  await checkScreen(t, page, 'sessions')

  await page.getByRole('button', { name: 'End the session of Safari on iPhone' }).click()
  await rows.nth(3).waitFor({ state: 'detached' })
  await page.locator('h1:focus').waitFor()
  await isSignedOut(phone)

  await page.getByRole('button', { name: 'End all other sessions' }).click()
  const dialog = page.getByRole('dialog', { name: 'End all other sessions?' })
  await checkScreen(t, page, 'the question about all other sessions')
  await dialog.getByRole('button', { name: 'End all other sessions' }).click()
  await rows.nth(1).waitFor({ state: 'detached' })
  t.equal(await page.getByRole('button', { name: 'End all other sessions' }).count(), 0)
  await page.locator('h1:focus').waitFor()
  for (const other of others) await isSignedOut(other)
})

t.test('a person creates a key, copies it, uses it, and deletes it', async (t) => {
  const { page } = await openSection(t, 'API keys')
  await page.getByText('You have no keys.').waitFor()
  await checkScreen(t, page, 'no keys')
  await page.getByRole('button', { name: 'New key' }).click()
  const dialog = page.getByRole('dialog')
  await checkScreen(t, page, 'a new key')
  const name = '<b>Nightly</b> \u05d0\u05d1\u05d2 build'
  await dialog.getByRole('button', { name: 'Create the key' }).click()
  t.equal(await dialog.getByLabel('Name').getAttribute('aria-invalid'), 'true', 'the empty field is marked')
  await dialog.getByLabel('Name').fill(name)
  t.equal(await dialog.getByLabel('Name').getAttribute('aria-invalid'), 'false')
  await dialog.getByLabel('read pages').uncheck()
  await dialog.getByLabel('Your password').fill(PASSWORD)
  await dialog.getByRole('button', { name: 'Create the key' }).click()
  await dialog.getByRole('alert').getByText('Choose at least one thing that the key may do.').waitFor()
  await dialog.getByLabel('create, change and delete pages').check()
  await dialog.getByLabel('Valid for').selectOption('30 days')
  await dialog.getByLabel('Your password').fill('wrong password')
  await dialog.getByRole('button', { name: 'Create the key' }).click()
  await dialog.getByRole('alert').getByText('Your current password is wrong.').waitFor()
  await dialog.getByLabel('Your password').fill(PASSWORD)
  await dialog.getByRole('button', { name: 'Create the key' }).click()
  const shown = page.getByRole('dialog', { name: 'Your new key' })
  await shown.waitFor()
  await checkScreen(t, page, 'the key')
  for (let count = 0; count < 4; count++) await page.keyboard.press('Escape')
  await shown.getByRole('button', { name: 'Copy key' }).click()
  const key = await page.evaluate<string>('navigator.clipboard.readText()')
  t.match(key, /^lf_[0-9A-Za-z]{46}$/)
  t.equal(await shown.locator('code').first().innerText(), key)
  await shown.getByRole('button', { name: 'Copy curl command' }).click()
  const command = await page.evaluate<string>('navigator.clipboard.readText()')
  t.match((await promisify(execFile)('sh', ['-c', command])).stdout, /"title":"Made with curl"/)
  await shown.getByRole('button', { name: 'I have copied it' }).click()

  const bearer = { headers: { authorization: `Bearer ${key}` } }
  const create = async () =>
    await call('POST', `${url}/landing_pages`, { ...bearer, json: { current_data: {} } })
  t.equal((await create()).status, 201)
  t.equal((await call('GET', `${url}/manage/landing_pages`, bearer)).status, 403)
  await page.reload()
  const row = page.getByRole('main').getByRole('listitem')
  await row.waitFor()
  const text = await row.innerText()
  t.ok(text.includes(name), 'names are shown as text')
  t.match(text, /create, change and delete pages[^]*last used[^]*expires on \w+ \d+, \d{4}/)
  t.notOk((await page.content()).includes(key), 'the key is gone')
  await checkScreen(t, page, 'keys')

  await page.getByRole('button', { name: 'Delete the key' }).click()
  const question = page.getByRole('dialog', { name: 'Delete this key?' })
  await question.getByText('It was last used').waitFor()
  await checkScreen(t, page, 'the question about a key')
  await question.getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('button', { name: 'Delete the key' }).click()
  await question.getByRole('button', { name: 'Delete the key' }).click()
  await page.getByText('You have no keys.').waitFor()
  await page.locator('h1:focus').waitFor()
  t.equal((await create()).status, 401)
})

t.test('where the service sends no mail, the address is shown without a button', async (t) => {
  const { page, email } = await openSection(t, 'E-mail address')
  await page.getByText(`You sign in with ${email}.`).waitFor()
  await page.getByText('This service sends no mail').waitFor()
  t.equal(await page.getByRole('main').getByRole('button').count(), 0)
  await checkScreen(t, page, 'e-mail address without mail')
})

t.test('a person deletes the account with everything in it', async (t) => {
  const { page, email, profile } = await openSection(t, 'Delete the account')
  const other = await openConsole(profile, url)
  await other.getByRole('heading', { name: 'Pages', level: 1 }).waitFor()
  await checkScreen(t, page, 'deletion')
  const button = page.getByRole('button', { name: 'Delete my account and everything in it' })
  await page.getByLabel('Your password').fill('wrong password')
  await button.click()
  await page.getByRole('alert').getByText('Your current password is wrong.').waitFor()
  await page.getByLabel('Your password').fill(PASSWORD)
  await button.click()
  await page.getByRole('status').getByText('Your account and everything in it is deleted.').waitFor()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  await other.getByRole('dialog', { name: 'Your session has ended' }).waitFor()
  const user = { email, password: PASSWORD }
  await until(async () => (await call('POST', `${url}/auth/sign_in`, { json: { user } })).status === 401)
  await page.reload()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  t.same(await profile.cookies(), [])
})

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

t.test('a reload needs no sign-in, and no script reads the refresh token', async (t) => {
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

t.test('a sign-out or a sign-in counts for all tabs', async (t) => {
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
