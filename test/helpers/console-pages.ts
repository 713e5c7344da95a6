import type { Browser, BrowserContext, BrowserContextOptions, Locator, Page } from 'playwright-core'
import type { Test } from 'tap'
import { PASSWORD, type CreatedPage } from './app.ts'
import { Owner } from './client.ts'
import { newProfile, openConsole } from './console.ts'

/** An account that is signed in to the console, and calls the service as well. */
export interface ConsoleOwner {
  readonly owner: Owner
  readonly profile: BrowserContext
  /** A tab that shows the pages. */
  readonly tab: Page
}

/** Signs a new owner in to the console, in a profile of their own. */
export async function startOwner (
  t: Test,
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {}
): Promise<ConsoleOwner> {
  const owner = await Owner.signUp(url)
  const profile = await newProfile(t, browser, options)
  const tab = await openConsole(profile, url)
  await signIn(tab, owner.email)
  return { owner, profile, tab }
}

/** Signs in as a person does, on the screen that is shown. */
export async function signIn (tab: Page, email: string): Promise<void> {
  await tab.getByLabel('E-mail address').fill(email)
  await tab.getByLabel('Password').fill(PASSWORD)
  await tab.getByRole('button', { name: 'Sign in' }).click()
  await tab.getByRole('heading', { name: 'Pages', level: 1 }).waitFor()
}

/** The editor of a tab that shows a page. */
export const editorOf = (tab: Page): Locator => tab.getByRole('textbox', { name: 'Document' })

/** Shows a page in a tab of the console, and waits for its editor. */
export async function showPage (tab: Page, { id }: CreatedPage): Promise<void> {
  await tab.evaluate(`location.hash = '#/pages/${id}'`)
  await editorOf(tab).waitFor()
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
