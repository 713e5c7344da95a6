import type { RunOptions } from 'axe-core'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Browser, BrowserContext, BrowserContextOptions, Locator, Page, Request } from 'playwright-core'
import type { Test } from 'tap'
import { PASSWORD, startServiceOnPostgres, type CreatedPage } from './app.ts'
import { startBrowser } from './browser.ts'
import { call, Owner } from './client.ts'

/** Longer than anything takes on a busy machine, such as handing the browser 12 MB of files. */
const WAIT_MS = 120_000

/** Returns a browser profile without cookies, in which what a console must not do fails the test. */
export async function newProfile (
  t: Test,
  browser: Browser,
  options: BrowserContextOptions = {}
): Promise<BrowserContext> {
  const permissions = ['clipboard-read', 'clipboard-write']
  const profile = await browser.newContext({ reducedMotion: 'reduce', permissions, ...options })
  t.teardown(async () => await profile.close())
  profile.setDefaultTimeout(WAIT_MS)
  profile.on('weberror', (error) => t.fail(`uncaught error: ${error.error().stack ?? error.error().message}`))
  profile.on('console', (message) => {
    // Chromium also prints every response that isn't successful.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) {
      t.fail(`the console printed: ${message.text()}`)
    }
  })
  profile.on('request', (request) => {
    if (/^https?:/.test(request.url()) && new URL(request.url()).hostname !== 'localhost') {
      t.fail(`the console loaded ${request.url()}`)
    }
  })
  return profile
}

/** Opens the console in a new tab. @param path such as `pages/ID` */
export async function openConsole (profile: BrowserContext, url: string, path = ''): Promise<Page> {
  const page = await profile.newPage()
  await page.goto(`${url}/console/#/${path}`)
  return page
}

/** Signs in as a person does, on the screen that is shown. */
export async function signIn (page: Page, email: string, password = PASSWORD): Promise<void> {
  await page.getByLabel('E-mail address').fill(email)
  await page.getByLabel('Password').fill(password)
  await page.getByRole('button', { name: 'Sign in' }).click()
}

/** Fills in and sends the form for a new account. */
export async function fillSignUp (page: Page, email: string, password = PASSWORD, repeated = password) {
  await page.getByLabel('E-mail address').fill(email)
  await page.getByLabel('Password', { exact: true }).fill(password)
  await page.getByLabel('Password, repeated').fill(repeated)
  await page.getByRole('button', { name: 'Create the account' }).click()
}

let accounts = 0

/** Creates an account as a person does. Returns its tab, which shows its pages, and its address. */
export async function signUpInConsole (
  profile: BrowserContext,
  url: string
): Promise<{ page: Page, email: string }> {
  const email = `owner-${++accounts}-${process.pid}@example.com`
  const page = await openConsole(profile, url, 'sign-up')
  await fillSignUp(page, email)
  await page.getByRole('heading', { name: 'Pages', level: 1 }).waitFor()
  return { page, email }
}

const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']
const COLOUR_RULES = ['color-contrast', 'link-in-text-block']

const ALL: RunOptions = { runOnly: { type: 'tag', values: TAGS } }
const COLOURS: RunOptions = { runOnly: { type: 'rule', values: COLOUR_RULES } }
/** These depend on the size of the window. */
const LAYOUT: RunOptions = {
  runOnly: { type: 'rule', values: ['target-size', 'scrollable-region-focusable'] }
}
/** Resolves in a page when no style changes any more: with reduced motion, too, a change takes frames. */
const SETTLED = `new Promise((resolve) => {
  let quietFrames = 0
  const look = () => {
    const changes = document.getAnimations().some((one) => one instanceof CSSTransition)
    quietFrames = changes ? 0 : quietFrames + 1
    if (quietFrames < 3) requestAnimationFrame(look)
    else resolve()
  }
  requestAnimationFrame(look)
})`
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/**
 * Checks the screen of a tab with axe: in light, in dark and on a phone. Checks that nothing is wider than
 * the window there.
 */
export async function checkScreen (t: Test, page: Page, name: string): Promise<void> {
  const check = async (appearance: string, options: RunOptions) => {
    // Loading axe takes longer than most checks.
    if (!await page.evaluate<boolean>("'axe' in globalThis")) await page.evaluate(AXE)
    const found = await page.evaluate<string[]>(`
      (${SETTLED}).then(() => axe.run(${JSON.stringify({ ...options, resultTypes: ['violations'] })}))
        .then(({ violations }) =>
          violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' ')))`)
    t.same(found, [], `axe on ${name}, ${appearance}`)
  }
  await page.emulateMedia({ colorScheme: 'light' })
  await check('light', ALL)
  const viewport = page.viewportSize()
  await page.setViewportSize({ width: 320, height: 640 })
  await check('a phone', LAYOUT)
  const widths = await page.evaluate<[number, number][]>(`
    [document.documentElement, ...document.querySelectorAll('dialog[open]')]
      .map(({ scrollWidth, clientWidth }) => [scrollWidth, clientWidth])`)
  for (const [needed, available] of widths) {
    t.ok(needed <= available, `${name} needs ${needed} pixels of ${available} in a window of 320`)
  }
  if (viewport !== null) await page.setViewportSize(viewport)
  // The colour scheme changes nothing but colours.
  await page.emulateMedia({ colorScheme: 'dark' })
  await check('dark', COLOURS)
  await page.emulateMedia({ colorScheme: null })
}

/** A file as Playwright takes it. */
export interface TestFile {
  readonly name: string
  readonly mimeType: string
  readonly buffer: Buffer
}

const TYPES: Readonly<Record<string, string>> = {
  jpg: 'image/jpeg',
  json: 'application/json',
  pdf: 'application/pdf',
  png: 'image/png',
  svg: 'image/svg+xml'
}

/** Returns a file with the type of its extension. */
export const testFile = (name: string, content: string | Buffer): TestFile => ({
  name,
  mimeType: TYPES[name.split('.').at(-1) as string] ?? 'application/octet-stream',
  buffer: Buffer.from(content)
})

/** Drops files as a person does from another program. @param on where; beside everything by default */
export async function dropFiles (
  page: Page,
  files: readonly TestFile[],
  on = page.locator('body')
): Promise<void> {
  const dataTransfer = await page.evaluateHandle(transferOf(files))
  const { x = 0, y = 0, width = 0, height = 0 } = await on.boundingBox() ?? {}
  const place = { clientX: x + width / 2, clientY: y + height / 2 }
  for (const type of ['dragover', 'drop']) await on.dispatchEvent(type, { dataTransfer, ...place })
}

/** Pastes files into what has the focus. @param text that the same program has copied, too */
export async function pasteFiles (page: Page, files: readonly TestFile[], text = ''): Promise<void> {
  await page.evaluate(`(() => {
    const clipboardData = ${transferOf(files)}
    if (${text !== ''}) clipboardData.setData('text/plain', ${JSON.stringify(text)})
    let focused = document.activeElement
    while (focused.shadowRoot !== null) focused = focused.shadowRoot.activeElement
    const how = { clipboardData, bubbles: true, cancelable: true, composed: true }
    focused.dispatchEvent(new ClipboardEvent('paste', how))
  })()`)
}

/** Returns an expression for files in transfer, as it is evaluated in a page. */
function transferOf (files: readonly TestFile[]): string {
  const contents = files.map(({ name, mimeType, buffer }) => [name, mimeType, buffer.toString('base64')])
  return `(() => {
    const transfer = new DataTransfer()
    for (const [name, type, base64] of ${JSON.stringify(contents)}) {
      const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
      transfer.items.add(new File([bytes], name, { type }))
    }
    return transfer
  })()`
}

/**
 * Starts the service, and a browser in which a new owner is signed in, as `startOwner` does.
 *
 * @param program `provide('chromium')`, which must stand in the test file
 */
export async function startConsole (
  t: Test,
  program: string,
  options: BrowserContextOptions = {},
  settings: Record<string, string> = {}
) {
  const { url } = await startServiceOnPostgres(t, settings)
  const browser = await startBrowser(t, program)
  return { url, browser, ...await startOwner(t, browser, url, options) }
}

/** Signs a new owner in to the console, in a profile of their own, who calls the service as well. */
export async function startOwner (
  t: Test,
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {}
) {
  const owner = await Owner.signUp(url)
  const profile = await newProfile(t, browser, options)
  const tab = await openConsole(profile, url)
  await signIn(tab, owner.email)
  return {
    owner,
    profile,
    /** It shows the pages. */
    tab,
    button: (name: string) => tab.getByRole('button', { name, exact: true }),
    dialogOf: (name: string) => tab.getByRole('dialog', { name }),
    /** Waits until a text is announced. */
    announced: async (text: string) => await tab.getByRole('status').getByText(text).waitFor(),
    /** Shows a new page as text. */
    async showNew (document: string) {
      const page = await owner.createPage(url, document)
      await showPage(tab, page)
      return page
    },
    /** Returns the document of a page as it is stored. */
    readText: async (id: string) =>
      (await owner.call('GET', `${url}/manage/landing_pages/${id}/document`)).text,
    /** Returns what visitors get: a document, or a status. */
    async visit ({ public_id: publicId }: CreatedPage) {
      const { status, text } = await call('GET', `${url}/landing_pages/${publicId}`)
      return status === 200 ? text : status
    }
  }
}

/** The editor of a tab that shows a page as text. */
export const editorOf = (tab: Page): Locator => tab.getByRole('textbox', { name: 'Document' })

/** Shows a page in a tab of the console, as text, and waits for its editor. */
export async function showPage (tab: Page, page: CreatedPage): Promise<void> {
  await tab.evaluate(`location.hash = '#/pages/${page.id}'`)
  await showText(tab)
}

/** Shows the text of the page in a tab, and waits for its editor. */
export async function showText (tab: Page): Promise<void> {
  await tab.getByRole('button', { name: 'Code', exact: true }).click()
  await editorOf(tab).waitFor()
}

/** Shows a page in a tab of the console, as fields, and waits for them. */
export async function showFields (tab: Page, { id }: CreatedPage): Promise<void> {
  await tab.evaluate(`location.hash = '#/pages/${id}'`)
  await tab.getByRole('searchbox', { name: 'Find a field' }).waitFor()
}

/** Puts the cursor at the start of the editor and types. */
export async function typeAtStart (tab: Page, text: string): Promise<void> {
  await editorOf(tab).focus()
  await tab.keyboard.press('Control+Home')
  await tab.keyboard.type(text)
}

/** Saves with the keyboard, and waits until it has happened. */
export async function save (tab: Page): Promise<void> {
  const answer = tab.waitForResponse((response) => response.request().method() === 'PUT')
  await tab.keyboard.press('Control+s')
  await answer
  await tab.getByRole('status').getByText('Saved').waitFor()
}

/** Saves with the button, and waits until it has happened. Returns the request. */
export async function saveFields (tab: Page): Promise<Request> {
  const sent = tab.waitForRequest((request) => ['PUT', 'PATCH'].includes(request.method()))
  await tab.getByRole('button', { name: 'Save and publish' }).click()
  await tab.getByText('No unsaved changes').waitFor()
  return await sent
}
