import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import t from 'tap'
import { createLandfallClient } from '../../../packages/client/src/index.ts'
import type * as Client from '../../../packages/client/src/index.ts'
import { credentials, startApp } from '../../helpers/api-client.ts'
import { startBrowser } from '../../helpers/browser.ts'
import { listen } from '../../helpers/servers.ts'
import { installClient, readmeBlock } from './installed-client.ts'
import { provide } from '../../shared/programs.ts'

// Uses the installed package without a bundler, in a page of another origin.

const PAGE = `<!doctype html><script type="importmap">
  {"imports": {
    "@landfall/client": "/@landfall/client/dist/index.js",
    "openapi-fetch": "/openapi-fetch/dist/index.mjs"
  }}
</script><input type="file">`

const site = createServer((request, response) => {
  const { pathname } = new URL(request.url ?? '/', 'http://localhost')
  if (pathname === '/') return response.setHeader('content-type', 'text/html').end(PAGE)
  readFile(join(modules, pathname)).then(
    (text) => response.setHeader('content-type', 'text/javascript').end(text),
    () => response.writeHead(404).end()
  )
})
const origin = `http://localhost:${await listen(t, site)}`

const { app, url } = await startApp(t, { CORS_ORIGINS: origin })
const modules = join(await installClient(t, url), 'node_modules')
const browser = await startBrowser(t, provide('chromium'))

declare global {
  // Defined in the pages of this test.
  var landfall: Client.LandfallClient
  var localStorage: Client.WebStorage
}

/** Opens a tab whose client keeps its tokens in localStorage, which the tabs of a context share. */
async function openTab (context: Awaited<ReturnType<typeof browser.newContext>>): Promise<Page> {
  const page = await context.newPage()
  page.on('pageerror', (error) => t.fail(error.message))
  await page.goto(origin)
  await page.evaluate(async ({ url, module }) => {
    const { createLandfallClient, webStorageTokens } = await import(module) as typeof Client
    globalThis.landfall = createLandfallClient({ baseUrl: url, tokens: webStorageTokens(localStorage) })
  }, { url, module: '@landfall/client' })
  return page
}

t.test('the upload example of the README runs in a browser', async (t) => {
  const context = await browser.newContext()
  const tab = await openTab(context)
  await tab.evaluate(async (account) => await landfall.auth.signUp(account), credentials())
  const page = await context.newPage()
  page.on('pageerror', (error) => t.fail(error.message))
  await page.goto(origin)
  await page.addScriptTag({
    type: 'module',
    content: readmeBlock('Browsers').replaceAll('http://localhost:3000', url)
  })
  await page.waitForFunction("document.querySelector('input').onchange !== null")
  const printed = page.waitForEvent('console')
  await page.setInputFiles('input', {
    name: 'note.txt',
    mimeType: 'text/plain',
    buffer: Buffer.from('hello')
  })
  const address = (await printed).text()
  t.equal((await app.inject(new URL(address).pathname)).body, 'hello')
})

/** Opens a page of the service's own origin, with the client. */
async function openOwnPage (context: Awaited<ReturnType<typeof browser.newContext>>): Promise<Page> {
  const page = await context.newPage()
  page.on('pageerror', (error) => t.fail(error.message))
  await page.route(
    `${url}/own-page`,
    async (route) => await route.fulfill({ contentType: 'text/html', body: PAGE })
  )
  await page.route(
    ({ pathname }) => /^\/(@landfall|openapi-fetch)\//.test(pathname),
    async (route) => await route.fulfill({ path: join(modules, new URL(route.request().url()).pathname) })
  )
  await page.goto(`${url}/own-page`)
  return page
}

t.test('the example of a session in a cookie runs in a browser, and two tabs share the session', async (t) => {
  const account = { email: 'editor@example.com', password: 'correct horse' }
  await createLandfallClient({ baseUrl: url }).auth.signUp(account)
  const context = await browser.newContext()
  const statuses: string[] = []
  context.on('response', (response) => {
    const { pathname } = new URL(response.url())
    if (pathname === '/auth/browser_session') {
      statuses.push(`${response.request().method()} ${response.status()}`)
    }
  })
  const script = `import { createLandfallClient } from '@landfall/client'
    ${readmeBlock('Sessions in a cookie')}
    globalThis.landfall = landfall`
  const open = async (): Promise<Page> => {
    const page = await openOwnPage(context)
    // The browser itself reports the 401 of the first visit.
    const printed = page.waitForEvent('console', (message) => message.type() === 'log')
    await page.addScriptTag({ type: 'module', content: script })
    t.equal((await printed).text(), account.email)
    return page
  }
  const tabs = [await open(), await open()]
  t.same(statuses, ['POST 204', 'POST 200', 'POST 200'], 'the second tab resumes the session')
  t.same(await context.cookies(url), [], 'only one route gets the cookie')
  const [cookie] = await context.cookies(`${url}/auth/browser_session`)
  t.match(cookie, { name: 'landfall_session', httpOnly: true, sameSite: 'Strict', secure: false })
  t.equal(await tabs[0]!.evaluate('document.cookie'), '')

  statuses.length = 0
  await Promise.all(tabs.map(async (tab) =>
    await tab.evaluate(async () => {
      await Promise.all([1, 2, 3].map(async () => await landfall.auth.resume()))
    })
  ))
  t.same(statuses, Array(6).fill('POST 200'), 'tabs take turns')
  await tabs[0]!.evaluate(async () => await landfall.auth.signOut())
  t.same(await context.cookies(`${url}/auth/browser_session`), [])
  t.equal(await tabs[1]!.evaluate(async () => await landfall.auth.resume()), undefined)
})
