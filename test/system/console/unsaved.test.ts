import type { Page } from 'playwright-core'
import t from 'tap'
import { PASSWORD } from '../../helpers/app.ts'
import { checkScreen, editorOf, openConsole, save, showPage, showText, signIn, startConsole, startOwner,
  typeAtStart } from '../../helpers/console.ts'
import { provide } from '../../shared/programs.ts'
import { until } from '../../helpers/until.ts'

// What a person has written and not saved: it survives a reload and a crash of the tab, and nothing else.

const { url, browser, owner, profile, tab, showNew, readText } = await startConsole(t, provide('chromium'))

const keptIn = async (page: Page): Promise<string> =>
  await page.evaluate('JSON.stringify(Object.values(sessionStorage))')

/** Waits until the tab has kept a text, or nothing. */
const isKept = async (text: string | undefined, page = tab) =>
  await until(async () => {
    const kept = await keptIn(page)
    return text === undefined ? kept === '[]' : kept.includes(text)
  }, `kept: ${text}`)

const question = tab.getByRole('dialog', { name: 'Restore what you wrote at' })
const choose = async (name: string) => {
  await question.getByRole('button', { name }).click()
  await question.waitFor({ state: 'detached' })
}

async function writeOn (document: string, text: string) {
  const page = await showNew(document)
  await typeAtStart(tab, text)
  await isKept(text)
  return page
}

t.test('unsaved text survives a reload, and is forgotten when it is saved', async (t) => {
  const { id } = await writeOn('["saved"]', '  ')
  await typeAtStart(tab, ' ') // less than the time after which it is kept
  await tab.reload()
  await question.waitFor()
  await checkScreen(t, tab, 'question about unsaved text')
  await tab.keyboard.press('Escape')
  await choose('Restore')
  await tab.getByText('Unsaved changes', { exact: true }).waitFor()
  await editorOf(tab).focus()
  await save(tab)
  t.equal(await readText(id), '   ["saved"]')
  await isKept(undefined)
  await tab.reload()
  await editorOf(tab).getByText('saved').waitFor()
  t.equal(await question.count(), 0)
})

t.test('unsaved text survives a crash of the tab', async (t) => {
  const { id } = await writeOn('["before the crash"]', '    ')
  // Playwright gives up a tab that has crashed. The console notices as little of this one's end.
  await tab.evaluate(`for (const type of ['pagehide', 'visibilitychange']) {
    addEventListener(type, (event) => event.stopImmediatePropagation(), true)
  }`)
  await tab.reload()
  await choose('Restore')
  await editorOf(tab).focus()
  await save(tab)
  t.equal(await readText(id), '    ["before the crash"]')
})

t.test('unsaved text that is discarded is gone', async (t) => {
  await writeOn('["original"]', '     ')
  await tab.reload()
  await choose('Discard')
  await editorOf(tab).getByText('original').waitFor()
  await tab.getByText('No unsaved changes').waitFor()
  t.equal(await keptIn(tab), '[]')
})

t.test('if the page has changed meanwhile, the question says so, and saving shows both versions', async (t) => {
  const { id } = await writeOn('["mine"]', '      ')
  await owner.update(url, id, '["theirs"]')
  await tab.reload()
  await question.getByText('The page has changed since.').waitFor()
  await checkScreen(t, tab, 'question about unsaved text of a page that has changed')
  await choose('Restore')
  await editorOf(tab).focus()
  await tab.keyboard.press('Control+s')
  const conflict = tab.getByRole('dialog', { name: 'This page has changed since you opened it' })
  await conflict.getByText('theirs').waitFor()
  await conflict.getByRole('button', { name: 'Save my version' }).click()
  await tab.getByText('No unsaved changes').waitFor()
  t.equal(await readText(id), '      ["mine"]')
})

t.test('leaving a page without saving forgets what was written on it', async () => {
  await writeOn('["left"]', '       ')
  await tab.getByRole('navigation', { name: 'Areas' }).getByRole('link', { name: 'Pages' }).click()
  await tab.getByRole('button', { name: 'Leave without saving' }).click()
  await tab.getByRole('heading', { name: 'Pages', level: 1 }).waitFor()
  await isKept(undefined)
})

t.test('unsaved text ends with a sign-out, not with an expired session', async (t) => {
  const page = await writeOn('["private"]', '        ')
  await owner.call('DELETE', `${url}/auth/sessions`)
  await tab.reload()
  await signIn(tab, owner.email)
  await question.waitFor()
  await choose('Restore')
  await isKept('private')

  const other = await openConsole(profile, url)
  await other.getByRole('button', { name: 'Sign out' }).click()
  const ended = tab.getByRole('dialog', { name: 'Your session has ended' })
  await ended.waitFor()
  await isKept(undefined)
  await tab.getByLabel('Password').fill(PASSWORD)
  await tab.getByRole('button', { name: 'Sign in' }).click()
  await ended.waitFor({ state: 'detached' })
  await typeAtStart(tab, ' ')
  await isKept('private')
  await tab.getByRole('button', { name: 'Sign out' }).click()
  await tab.getByRole('button', { name: 'Leave without saving' }).click()
  await tab.getByRole('heading', { name: 'Sign in' }).waitFor()
  t.equal(await keptIn(tab), '[]')

  await signIn(tab, owner.email)
  await showPage(tab, page)
  await typeAtStart(tab, ' ')
  await isKept('private')
  await owner.call('DELETE', `${url}/auth/sessions`)
  await tab.reload()
  const stranger = await startOwner(t, browser, url)
  await signIn(tab, stranger.owner.email)
  await tab.getByRole('alert').getByText('was deleted, or isn’t yours').waitFor()
  t.equal(await keptIn(tab), '[]')
  await tab.getByRole('button', { name: 'Sign out' }).click()
  await signIn(tab, owner.email)
})

t.test('if the browser has no place for it, a note says that it is not kept', async () => {
  await showNew('["large"]')
  await tab.evaluate("Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError') }")
  await typeAtStart(tab, ' ')
  const note = tab.getByText('The browser has no place to keep this text')
  await note.waitFor()
  await save(tab)
  await note.waitFor({ state: 'detached' })
  await showText(tab)
})
