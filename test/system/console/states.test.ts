import t from 'tap'
import { startServiceOnPostgres, testSettings } from '../../helpers/app.ts'
import { startBrowser } from '../../helpers/browser.ts'
import { checkScreen, fillSignUp, newProfile, openConsole, signUpInConsole } from '../../helpers/console.ts'
import { provide } from '../../shared/programs.ts'
import { createProxy } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'

const browser = await startBrowser(t, provide('chromium'))
const { DATABASE_URL } = await testSettings(t)
const database = await createProxy(t, DATABASE_URL as string)
const { url } = await startServiceOnPostgres(t, {
  DATABASE_URL: database.url,
  DATABASE_TIMEOUT_MS: '500',
  SIGN_UPS_PER_ADDRESS: '4'
})

t.test('while the database is away, the console says so and goes on by itself afterwards', async (t) => {
  const { page } = await signUpInConsole(await newProfile(t, browser), url)
  database.blackhole()
  await page.reload()
  await page.getByRole('alert').getByText(/Trying again in \d+ s/).waitFor()
  await checkScreen(t, page, 'an error at the start')
  // What was sent in between is lost, so the refresh token has not been used.
  await database.restore({ forget: true })
  await page.getByRole('heading', { name: 'Pages', level: 1 }).waitFor()
})

t.test('a person is told when the connection is gone, and when it is back', async (t) => {
  const profile = await newProfile(t, browser)
  const { page } = await signUpInConsole(profile, url)
  await profile.setOffline(true)
  const banner = page.getByText('You are offline.')
  await banner.waitFor()
  await checkScreen(t, page, 'offline')
  await profile.setOffline(false)
  await banner.waitFor({ state: 'detached' })
})

t.test('a person who comes back after an upgrade is asked to load the new console', async (t) => {
  const { page } = await signUpInConsole(await newProfile(t, browser), url)
  await page.route('**/console/settings.json', async (route) => {
    const response = await route.fetch()
    await route.fulfill({ response, json: { ...await response.json() as object, version: 'newer' } })
  })
  await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
  await page.getByText('There is a new version of the console').waitFor()
  await checkScreen(t, page, 'a new version')
  await page.unroute('**/console/settings.json')
  await page.getByRole('button', { name: 'Load it' }).click()
  await page.getByText('There is a new version of the console').waitFor({ state: 'detached' })
})

t.test('a path that leads nowhere says so', async (t) => {
  const { page } = await signUpInConsole(await newProfile(t, browser), url)
  await page.evaluate("location.hash = '#/nowhere/%00/..'")
  await page.getByRole('heading', { name: 'Not found' }).waitFor()
  await checkScreen(t, page, 'not found')
})

t.test('after too many attempts, a countdown says when to try again', async (t) => {
  const page = await openConsole(await newProfile(t, browser), url, 'sign-up')
  await fillSignUp(page, 'one-too-many@example.com')
  const timer = page.getByRole('timer')
  const first = Number.parseInt(await timer.innerText())
  t.ok(first > 0 && first <= 60, `${first} seconds`)
  await checkScreen(t, page, 'a countdown')
  await until(async () => Number.parseInt(await timer.innerText()) < first, 'the countdown goes on')
})
