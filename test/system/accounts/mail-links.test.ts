import { createServer, request } from 'node:http'
import type { BrowserContext, Page } from 'playwright-core'
import t from 'tap'
import { buildTestApp, listen, signInStatus, signUp } from '../../helpers/app.ts'
import { startBrowser } from '../../helpers/browser.ts'
import { startMailServer, type MailServer } from '../../helpers/mail-server.ts'
import { provide } from '../../shared/programs.ts'
import { listen as listenOn } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'

// The pages behind the links in mails, in a real browser. A proxy puts the service below a path, as BASE_URL
// may say.

const NEW_PASSWORD = 'a brand-new staple'

const mail = await startMailServer(t)
/** The requests of browsers, such as `PUT /x/auth/password_resets`. */
const requests: string[] = []
let target = ''
const proxy = createServer((incoming, outgoing) => {
  const { method = '', url = '' } = incoming
  requests.push(`${method} ${url}`)
  if (!url.startsWith('/x/')) return outgoing.writeHead(404).end()
  incoming.pipe(request(target + url.slice(2), { method, headers: incoming.headers }, (response) => {
    outgoing.writeHead(response.statusCode ?? 502, response.headers)
    response.pipe(outgoing)
  }))
})
const BASE_URL = `http://localhost:${await listenOn(t, proxy)}/x`

const app = await buildTestApp(t, { ...mail.settings, BASE_URL })
target = await listen(app)
const browser = await startBrowser(t, provide('chromium'))

async function open (context: BrowserContext, url: string): Promise<Page> {
  const page = await context.newPage()
  page.on('pageerror', (error) => t.fail(error.message))
  page.on('console', (message) => {
    if (/Content Security Policy/i.test(message.text())) t.fail(message.text())
  })
  await page.goto(url)
  return page
}

/** Returns the link in the newest mail to an address with a subject. */
const linkIn = async (server: MailServer, email: string, subject: string): Promise<string> =>
  await until(() => {
    const found = server.mails.findLast(({ to, headers }) =>
      to.includes(email) && headers.subject === subject
    )
    return /^http\S+$/m.exec(found?.text ?? '')?.[0]
  })

async function askForReset (email: string): Promise<string> {
  await app.inject({ method: 'POST', url: '/auth/password_resets', payload: { email } })
  return await linkIn(mail, email, 'Reset your password')
}

t.test('a person chooses a new password with a mailed link', async (t) => {
  const { user: { email } } = await signUp(app)
  const link = await askForReset(email)
  t.ok(link.startsWith(`${BASE_URL}/account/reset-password#token=`), link)
  const page = await open(await browser.newContext(), link)
  await page.getByLabel('New password', { exact: true }).fill('password')
  await page.getByLabel('New password, repeated').fill('other')
  t.equal(page.url(), `${BASE_URL}/account/reset-password`, 'the token is not in the address bar')
  const message = page.getByRole('alert')
  const button = page.getByRole('button', { name: 'Change the password' })
  t.equal(await page.getByRole('link').count(), 0, 'the console is offered when all is done')
  await button.click()
  await message.getByText("Password confirmation doesn't match Password").waitFor()
  await message.getByText('Password is too common').waitFor()

  await page.getByLabel('New password', { exact: true }).fill(NEW_PASSWORD)
  await page.getByLabel('New password, repeated').fill(NEW_PASSWORD)
  await button.click()
  await message.getByText('Your password is changed').waitFor()
  t.equal(await button.count(), 0)
  const next = page.getByRole('link', { name: 'Open the console' })
  t.equal(await next.evaluate((link) => (link as unknown as { href: string }).href), `${BASE_URL}/console/`)
  t.equal(await signInStatus(app, email, NEW_PASSWORD), 200)
  t.equal(await signInStatus(app, email), 401)
  t.notMatch(requests.join('\n'), /token/, 'no request line has the token')

  const again = await open(await browser.newContext(), link)
  await again.getByLabel('New password', { exact: true }).fill(NEW_PASSWORD)
  await again.getByLabel('New password, repeated').fill(NEW_PASSWORD)
  await again.getByRole('button').click()
  await again.getByRole('alert').getByText('Link is invalid or has expired: ask for a new one').waitFor()
})

t.test('scanners that open a link and run its script use nothing up', async (t) => {
  const { user: { email }, headers } = await signUp(app)
  for (const link of [await linkIn(mail, email, 'Confirm your email address'), await askForReset(email)]) {
    requests.length = 0
    for (const method of ['GET', 'HEAD', 'OPTIONS', 'POST']) await (await fetch(link, { method })).text()
    const scanner = await open(await browser.newContext(), link)
    await scanner.getByRole('button').waitFor()
    await (await browser.newContext({ javaScriptEnabled: false })).newPage().then(async (page) =>
      await page.goto(link)
    )
    t.same(requests.filter((one) => /auth/.test(one)), [], 'nothing is sent')
  }
  t.equal((await app.inject({ url: '/auth/me', headers })).json().user.email_confirmed_at, null)
  t.equal(await app.database.mailLink.count({ where: { user: { email }, tokenHash: { not: null } } }), 2)
})

t.test('a page without a token says what to do', async (t) => {
  const page = await open(await browser.newContext(), `${BASE_URL}/account/reset-password`)
  await page.getByRole('alert').getByText('Open the link in the mail once more').waitFor()
  t.equal(await page.getByRole('button').count(), 0)
})

t.test('another link that is opened in the same tab is used', async () => {
  const { user: { email } } = await signUp(app)
  const link = await linkIn(mail, email, 'Confirm your email address')
  const page = await open(await browser.newContext(), link.replace(/=.*/, '=old'))
  await page.goto(link)
  await page.waitForURL(`${BASE_URL}/account/confirm-email`)
  await until(async () => {
    await page.getByRole('button').click({ timeout: 1000 }).catch(() => {})
    return (await page.getByRole('alert').textContent())?.includes('is confirmed')
  })
})

t.test('the pages run no inline script and send no Referer', async (t) => {
  for (const path of ['reset-password', 'confirm-email']) {
    const response = await fetch(`${BASE_URL}/account/${path}`)
    t.equal(response.status, 200)
    t.match(
      response.headers.get('content-security-policy'),
      /^default-src 'none'; script-src 'self'; style-src 'self';/
    )
    t.equal(response.headers.get('referrer-policy'), 'no-referrer')
    t.equal(response.headers.get('cache-control'), 'no-store')
    t.notMatch(await response.text(), /style=|<style| on\w+=|<script(?! type="module" src="page\.js"><)/)
  }
})
