import type { Locator } from 'playwright-core'
import t from 'tap'
import { checkScreen, editorOf, openConsole, save, showPage, startConsole, startOwner,
  typeAtStart } from '../../helpers/console.ts'
import { PASSWORD } from '../../helpers/app.ts'
import { provide } from '../../shared/programs.ts'
import { until } from '../../helpers/until.ts'

const { url, browser, owner, tab, showNew, readText } = await startConsole(t, provide('chromium'))

const hasFocus = async (locator: Locator): Promise<boolean> =>
  await locator.and(tab.locator(':focus')).count() === 1

t.test('the editor is accessible, with an error and with the search', async (t) => {
  const lines = Array.from({ length: 100 }, (_, index) => `  ${index}`).join(',\n')
  await showNew(`{"title": "A page", "list": [1, true, null,\n${lines}]}`)
  await typeAtStart(tab, '!')
  await tab.keyboard.press('Control+f')
  await tab.getByRole('textbox', { name: 'Find' }).waitFor()
  await tab.getByRole('button', { name: 'Line 1, column' }).waitFor()
  await checkScreen(t, tab, 'editor')
  await tab.keyboard.press('Escape')
  await typeAtStart(tab, '')
  await tab.keyboard.press('Delete')
})

t.test('Tab indents, and Escape and Tab leave the editor', async (t) => {
  const { id } = await showNew('{"a": 1}')
  await typeAtStart(tab, '')
  await tab.keyboard.press('Tab')
  t.equal(await hasFocus(editorOf(tab)), true)
  await save(tab)
  t.equal(await readText(id), '  {"a": 1}')
  await tab.keyboard.press('Escape')
  await tab.keyboard.press('Tab')
  t.equal(await hasFocus(editorOf(tab)), false)
  await editorOf(tab).focus()
  await tab.keyboard.press('Escape')
  await tab.keyboard.press('Shift+Tab')
  t.equal(await hasFocus(tab.getByRole('button', { name: 'Insert an asset' })), true)
  t.equal(
    await editorOf(tab).getAttribute('aria-describedby'),
    await tab.getByText('press Escape, then Tab').getAttribute('id')
  )
})

t.test('an error is named while typing, and one click goes there', async (t) => {
  const { id } = await showNew('{\n  "price": 1,\n  "list": [1, 2]\n}')
  await editorOf(tab).focus()
  await tab.keyboard.press('Control+End')
  await tab.keyboard.press('ArrowUp')
  await tab.keyboard.press('End')
  await tab.keyboard.press('ArrowLeft')
  await tab.keyboard.type(',')
  const error = tab.getByRole('button', { name: 'Line 3, column 17: Remove the comma before ].' })
  await error.waitFor()
  await tab.getByRole('status').getByText('Line 3, column 17: Remove the comma').waitFor()
  await tab.keyboard.press('Control+Home')
  await error.click()
  await tab.keyboard.press('Backspace')
  await error.waitFor({ state: 'detached' })
  t.equal(await readText(id), '{\n  "price": 1,\n  "list": [1, 2]\n}')
  await tab.getByText('No unsaved changes').waitFor()
})

t.test('a text that the service would refuse is not sent', async (t) => {
  await showNew('{"a": 1}')
  await typeAtStart(tab, '[')
  await tab.getByRole('button', { name: 'Save and publish' }).click()
  await tab.getByRole('status')
    .getByText('Not saved. Line 1, column 10: The [ of line 1 has no end. A ] is missing.').waitFor()
  t.equal(await hasFocus(editorOf(tab)), true)
  await tab.keyboard.type(']')
  await save(tab)
})

t.test('Format changes white space only, and can be undone', async (t) => {
  const { id } = await showNew('{"b":1.0,"a":[1e400,{}],"b":"\\u0041"}')
  await tab.getByRole('button', { name: 'Format' }).click()
  await tab.getByRole('status').getByText('Only white space was changed').waitFor()
  await editorOf(tab).focus()
  await save(tab)
  t.equal(await readText(id), '{\n  "b": 1.0,\n  "a": [\n    1e400,\n    {}\n  ],\n  "b": "\\u0041"\n}')
  await tab.keyboard.press('Control+z')
  await save(tab)
  t.equal(await readText(id), '{"b":1.0,"a":[1e400,{}],"b":"\\u0041"}')
})

t.test('the size is shown, and a text that is too large is not sent', async (t) => {
  const { id } = await showNew(`["${'x'.repeat(1_048_570)}"]`)
  await tab.getByText('1,024 KB of 1 MB').waitFor()
  await tab.getByText('lines are not wrapped').waitFor()
  await typeAtStart(tab, '   ')
  await tab.getByText('too large to be saved').waitFor()
  await tab.keyboard.press('Control+s')
  await tab.getByRole('alert').getByText('a document can have at most 1 MB').waitFor()
  for (let count = 0; count < 3; count++) await tab.keyboard.press('Backspace')
  await save(tab)
  t.equal((await readText(id)).length, 1_048_574)
})

t.test('a document with 30,000 lines is searched and changed', async (t) => {
  const lines = Array.from({ length: 30_000 }, (_, index) => `  "item ${index}"`)
  const document = `[\n${lines.join(',\n')}\n]`
  const { id } = await showNew(document)
  await editorOf(tab).focus()
  await tab.keyboard.press('Control+f')
  await tab.keyboard.type('item 29998"')
  await tab.keyboard.press('Enter')
  await tab.keyboard.press('Escape')
  await editorOf(tab).getByText('"item 29998"').waitFor()
  await tab.keyboard.type('found"')
  await save(tab)
  t.ok(await readText(id) === document.replace('item 29998', 'found'))
})

t.test('selected lines are deleted and replaced, also by a menu and an input method', async (t) => {
  const document = '{\n  "a": "first",\n  "b": 2\n}'
  const { id } = await showNew(document)
  const session = await tab.context().newCDPSession(tab)
  const selectMembers = async () => {
    await typeAtStart(tab, '')
    for (const key of ['ArrowDown', 'Shift+ArrowDown', 'Shift+ArrowDown']) await tab.keyboard.press(key)
  }
  await selectMembers()
  await session.send('Input.dispatchKeyEvent', { type: 'rawKeyDown', commands: ['deleteBackward'] })
  await save(tab)
  t.equal(await readText(id), '{\n}')
  await tab.keyboard.press('Control+z')
  await selectMembers()
  await session.send('Input.imeSetComposition', { text: 'に', selectionStart: 1, selectionEnd: 1 })
  await session.send('Input.insertText', { text: '"日本": 1' })
  await save(tab)
  t.equal(await readText(id), '{\n"日本": 1}')
  await selectMembers()
  await tab.keyboard.press('Control+z')
  await save(tab)
  t.equal(await readText(id), document)
})

t.test('leaving unsaved changes asks first', async (t) => {
  const { id } = await showNew('[1]')
  await typeAtStart(tab, ' ')
  await tab.getByText('Unsaved changes', { exact: true }).waitFor()
  const pages = tab.getByRole('navigation', { name: 'Areas' }).getByRole('link', { name: 'Pages' })
  await pages.click()
  const dialog = tab.getByRole('dialog', { name: 'Leave without saving?' })
  await dialog.waitFor()
  await checkScreen(t, tab, 'question about unsaved changes')
  await tab.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  t.ok(tab.url().endsWith(id))
  await tab.getByRole('button', { name: 'Sign out' }).click()
  await dialog.getByRole('button', { name: 'Stay here' }).click()
  for (let count = 0; count < 2; count++) await tab.evaluate('history.back()')
  await dialog.getByRole('button', { name: 'Stay here' }).click()
  await dialog.waitFor({ state: 'detached' })
  t.ok(tab.url().endsWith(id))
  for (const name of ['History', 'Visitors', 'Use', 'Edit']) {
    await tab.getByRole('navigation', { name: 'This page' }).getByRole('link', { name }).click()
  }
  await tab.getByText('Unsaved changes', { exact: true }).waitFor()
  const closing = tab.waitForEvent('dialog')
  await Promise.all([
    closing.then(async (question) => await question.dismiss()),
    tab.close({ runBeforeUnload: true })
  ])
  t.equal((await closing).type(), 'beforeunload')
  await pages.click()
  await dialog.getByRole('button', { name: 'Leave without saving' }).click()
  await tab.getByRole('heading', { name: 'Pages', level: 1 }).waitFor()
  t.equal(await readText(id), '[1]')
})

t.test('staying on a page leaves the history of the browser as it was', async (t) => {
  const page = await owner.createPage(url, '[1]')
  const isAt = async (path: string) => await tab.waitForURL(`**/#/${path}`)
  await tab.evaluate("location.hash = '#/assets'")
  const pages = tab.getByRole('navigation', { name: 'Areas' }).getByRole('link', { name: 'Pages' })
  for (let count = 0; count < 2; count++) await pages.click() // the second click replaces the entry
  await isAt('pages')
  await showPage(tab, page)
  await typeAtStart(tab, ' ')
  await tab.getByText('Unsaved changes', { exact: true }).waitFor()
  const dialog = tab.getByRole('dialog', { name: 'Leave without saving?' })
  for (const leave of [async () => await tab.evaluate('history.go(-2)'), async () => await tab.goBack()]) {
    await leave()
    await dialog.getByRole('button', { name: 'Stay here' }).click()
    await dialog.waitFor({ state: 'detached' })
    await isAt(`pages/${page.id}`)
  }
  await tab.goBack()
  await dialog.getByRole('button', { name: 'Leave without saving' }).click()
  await isAt('pages')
  await tab.getByRole('heading', { name: 'Pages', level: 1 }).waitFor()
  await tab.goBack()
  await isAt('assets')
  for (const path of ['pages', `pages/${page.id}`]) {
    await tab.goForward()
    await isAt(path)
  }
  t.equal(await editorOf(tab).innerText(), '[1]')
})

t.test('a session that ends during editing loses no text', async (t) => {
  const { id } = await showNew('[1]')
  await typeAtStart(tab, ' ')
  await owner.call('DELETE', `${url}/auth/sessions`)
  await tab.keyboard.press('Control+s')
  const dialog = tab.getByRole('dialog', { name: 'Your session has ended' })
  await dialog.getByLabel('Password').fill(PASSWORD)
  await dialog.getByRole('button', { name: 'Sign in' }).click()
  await dialog.waitFor({ state: 'detached' })
  // What is typed goes into the text, and the error is gone.
  await until(async () => await hasFocus(editorOf(tab)), 'the focus is in the text')
  await tab.keyboard.type(' ')
  t.equal(await tab.getByText('Your session has ended').count(), 0)
  // The save that was refused may still be under way again.
  await save(tab)
  await until(async () => await readText(id) === '  [1]', 'all is saved')
})

t.test('a sign-out in another tab costs nothing typed in this one', async (t) => {
  const { id } = await showNew('[1]')
  await typeAtStart(tab, ' ')
  for (const name of ['Visitors', 'Edit']) {
    await tab.getByRole('navigation', { name: 'This page' }).getByRole('link', { name }).click()
  }
  const other = await openConsole(tab.context(), url)
  await other.getByRole('button', { name: 'Sign out' }).click()
  const dialog = tab.getByRole('dialog', { name: 'Your session has ended' })
  await dialog.waitFor()
  for (let count = 0; count < 4; count++) await tab.keyboard.press('Escape')
  // The counts are asked for, which finds out once more that the session has ended.
  await tab.goBack()
  await tab.getByRole('alert').getByText('Your session has ended').waitFor()
  await tab.goForward()
  await dialog.getByLabel('Password').fill(PASSWORD)
  await dialog.getByRole('button', { name: 'Sign in' }).click()
  await dialog.waitFor({ state: 'detached' })
  await editorOf(tab).focus()
  await save(tab)
  t.equal(await readText(id), ' [1]')
  await other.close()
})

t.test('a page or asset of another account is not shown, and a link leads to the own list', async (t) => {
  const other = await startOwner(t, browser, url)
  const { id } = await owner.createPage(url, '["secret"]')
  const asset = await owner.upload(url, Buffer.from('secret'), 'secret.txt')
  for (const [list, missing] of [['pages', id], ['assets', (JSON.parse(asset.text) as { id: number }).id]]) {
    await other.tab.evaluate(`location.hash = '#/${list}/${missing}'`)
    const notice = other.tab.getByRole('alert').filter({ hasText: 'was deleted, or isn’t yours' })
    await notice.waitFor()
    t.equal(await other.tab.getByText('secret').count(), 0)
    t.equal(await other.tab.getByRole('button', { name: 'Try again' }).count(), 0)
    await checkScreen(t, other.tab, `a missing one of the ${list}`)
    await notice.getByRole('link', { name: `your ${list}` }).click()
    await other.tab.waitForURL(`**/#/${list}`)
  }
})
