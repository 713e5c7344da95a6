import type { Locator } from 'playwright-core'
import t from 'tap'
import { checkScreen, editorOf, save, showPage, startConsole, startOwner,
  typeAtStart } from '../../helpers/console.ts'
import { provide } from '../../shared/programs.ts'

const { url, browser, owner, profile, tab, showNew, readText, dialogOf, announced } = await startConsole(
  t,
  provide('chromium')
)

const openTab = async (name: 'Edit' | 'History' | 'Visitors' | 'Use') =>
  await tab.getByRole('navigation', { name: 'This page' }).getByRole('link', { name }).click()

const CHANGED = 'This page has changed since you opened it'

/** Changes a page elsewhere while it is being changed in the tab. */
async function startConflict () {
  const { id } = await showNew('{"title": "Original"}')
  await typeAtStart(tab, ' ')
  await owner.update(url, id, '{"title": "Theirs"}')
  await tab.keyboard.press('Control+s')
  await dialogOf(CHANGED).getByRole('textbox', { name: 'The other version' }).getByText('Theirs').waitFor()
  await dialogOf(CHANGED).getByRole('textbox', { name: 'Your version' }).getByText('Original').waitFor()
  return id
}

t.test('after a conflict, a person can go on editing', async (t) => {
  const id = await startConflict()
  await dialogOf(CHANGED).getByText(owner.email).waitFor()
  await checkScreen(t, tab, 'two versions')
  await tab.keyboard.press('Escape')
  await dialogOf(CHANGED).waitFor({ state: 'detached' })
  await tab.keyboard.press('Control+s')
  await dialogOf(CHANGED).waitFor()
  // The other version is replaced once more, so the question comes again.
  await owner.update(url, id, '{"title": "Theirs again"}')
  await tab.getByRole('button', { name: 'Save my version' }).click()
  await dialogOf(CHANGED).getByText('Theirs again').waitFor()
  await tab.getByRole('button', { name: 'Save my version' }).click()
  await dialogOf(CHANGED).waitFor({ state: 'detached' })
  t.equal(await readText(id), ' {"title": "Original"}')
})

t.test('a tab that is shown again loads the newest version, unless it has unsaved changes', async (t) => {
  const comeBack = async () => await tab.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
  const { id } = await showNew('{"title": "Original"}')
  await owner.update(url, id, '{"title": "Theirs"}')
  await comeBack()
  await announced('This page was changed elsewhere')
  await editorOf(tab).getByText('Theirs').waitFor()
  await typeAtStart(tab, ' ')
  await owner.update(url, id, '{"title": "Theirs again"}')
  await comeBack()
  await tab.keyboard.press('Control+s')
  await dialogOf(CHANGED).getByRole('textbox', { name: 'Your version' }).getByText('Theirs').waitFor()
  await tab.getByRole('button', { name: 'Save my version' }).click()
  await dialogOf(CHANGED).waitFor({ state: 'detached' })
  t.equal(await readText(id), ' {"title": "Theirs"}')
})

t.test('the text of a page that was deleted elsewhere can be copied', async (t) => {
  const { id } = await showNew('{"title": "Gone"}')
  await typeAtStart(tab, ' ')
  await owner.call('DELETE', `${url}/manage/landing_pages/${id}`)
  await tab.keyboard.press('Control+s')
  const alert = tab.getByRole('alert').filter({ hasText: 'deleted elsewhere' })
  await alert.getByRole('link', { name: 'trash' }).waitFor()
  await alert.getByRole('button', { name: 'Copy text' }).click()
  await announced('Copied')
  t.equal(await tab.evaluate('navigator.clipboard.readText()'), ' {"title": "Gone"}')
  await tab.evaluate("location.hash = '#/pages'")
  await tab.getByRole('button', { name: 'Leave without saving' }).click()
})

async function restoreFirst (): Promise<void> {
  await tab.getByRole('button', { name: 'Restore version 1' }).click()
  const dialog = dialogOf('Restore version 1?')
  await dialog.getByText('which visitors see at once').waitFor()
  await dialog.getByRole('button', { name: 'Restore version 1' }).click()
}

t.test('the history shows what changed, and restores a version', async (t) => {
  const { id } = await showNew('{"title": "First"}')
  await owner.update(url, id, '{"title": "Second"}')
  await openTab('History')
  await tab.getByText('current', { exact: true }).waitFor()
  t.equal(await tab.getByRole('listitem').filter({ hasText: owner.email }).count(), 2)
  await checkScreen(t, tab, 'history')
  await tab.getByRole('button', { name: 'Changes in version 2' }).click()
  const dialog = dialogOf('Version 1 and version 2')
  await dialog.getByRole('textbox', { name: 'Version 1' }).getByText('First').waitFor()
  await dialog.getByRole('textbox', { name: 'Version 2' }).getByText('Second').waitFor()
  await checkScreen(t, tab, 'comparison')
  await dialog.getByRole('button', { name: 'Close' }).click()
  await restoreFirst()
  await announced('Restored version 1 as version 3')
  await tab.getByText('restored from version 1').waitFor()
  t.equal(await readText(id), '{"title": "First"}')
  await tab.getByRole('button', { name: 'Compare version 2 with the current one' }).click()
  await dialogOf('Version 2 and version 3').getByRole('button', { name: 'Restore version 2' }).click()
  await announced('Restored version 2 as version 4')
  await openTab('Edit')
  await editorOf(tab).getByText('Second').waitFor()
  await tab.getByText('No unsaved changes').waitFor()
})

t.test('saving unsaved text after a restore asks which version to keep', async (t) => {
  const { id } = await showNew('{"title": "First"}')
  await typeAtStart(tab, ' ')
  await save(tab)
  await typeAtStart(tab, ' ')
  await openTab('History')
  await tab.getByRole('link', { name: 'Edit, unsaved changes' }).waitFor()
  await restoreFirst()
  await announced('Your unsaved changes are still in the editor')
  await openTab('Edit')
  await tab.getByRole('button', { name: 'Save and publish' }).click()
  await dialogOf(CHANGED).getByText(owner.email).waitFor()
  await tab.getByRole('button', { name: 'Save my version' }).click()
  await tab.getByRole('link', { name: 'Edit', exact: true }).waitFor()
  t.equal(await readText(id), '  {"title": "First"}')
})

t.test('a restore is refused if the page was changed after the history was loaded', async (t) => {
  const { id } = await showNew('{"title": "First"}')
  await owner.update(url, id, '{"title": "Second"}')
  await openTab('History')
  const restore = tab.getByRole('button', { name: 'Restore version 1' })
  await restore.waitFor()
  await owner.update(url, id, '{"title": "Third"}')
  await restoreFirst()
  const dialog = dialogOf('Restore version 1?')
  await dialog.getByRole('alert').getByText('The page was changed in the meantime').waitFor()
  await dialog.getByRole('button', { name: 'Close' }).click()
  await tab.getByRole('button', { name: 'Restore version 2' }).waitFor()
  t.equal(await readText(id), '{"title": "Third"}')
})

t.test('visitors are shown by hour and by day', async (t) => {
  const { public_id: publicId } = await showNew('{"title": "Read"}')
  await openTab('Visitors')
  await tab.getByText('Nobody has read this page').waitFor()
  await checkScreen(t, tab, 'no visitors')
  for (let count = 0; count < 3; count++) await fetch(`${url}/landing_pages/${publicId}`)
  for (;;) {
    await tab.getByLabel('Last 30 days').check()
    await tab.getByText('in the last 30 days').waitFor()
    if (await tab.getByText('3 reads in the last 30 days').count() === 1) break
    await tab.getByLabel('Last 24 hours').check()
    await tab.getByText('in the last 24 hours').waitFor()
    await tab.waitForTimeout(500)
  }
  await tab.getByRole('img', { name: 'Reads on each day, in UTC. The most were 3' }).waitFor()
  await tab.getByText('Show the numbers as a table').click()
  t.equal(await tab.getByRole('row').count(), 31)
  await checkScreen(t, tab, 'visitors')
  await tab.getByLabel('Last 24 hours').check()
  await tab.getByRole('img', { name: 'Reads in each hour. The most were 3' }).waitFor()
})

t.test('how to use a page is copied', async (t) => {
  const { public_id: publicId } = await showNew('{"title": "Used"}')
  await openTab('Use')
  await checkScreen(t, tab, 'use')
  const copied = async (what: string): Promise<string> => {
    await tab.getByRole('button', { name: `Copy ${what}` }).click()
    await announced(`Copied: ${what}`)
    return await tab.evaluate<string>('navigator.clipboard.readText()')
  }
  const publicUrl = await copied('URL')
  t.match(publicUrl, `/landing_pages/${publicId}`)
  t.equal(await (await fetch(publicUrl)).text(), '{"title": "Used"}')
  t.equal(await copied('curl command'), `curl ${publicUrl}`)
  t.match(await copied('JavaScript'), `await fetch('${publicUrl}')`)
  t.match(await copied('client code'), `landingPages.read('${publicId}')`)
})

t.test('a page is duplicated exactly, after a question about unsaved changes', async (t) => {
  const text = '{ "title": "Twin", "n": 1.50, "n": 1e400,\r\n "a": "\\u00e4" }'
  const { id } = await showNew(text)
  await typeAtStart(tab, ' ')
  await tab.getByRole('button', { name: 'Duplicate' }).click()
  await tab.getByRole('button', { name: 'Stay here' }).click()
  await tab.getByRole('dialog').waitFor({ state: 'detached' })
  await tab.getByRole('button', { name: 'Duplicate' }).click()
  await tab.getByRole('button', { name: 'Leave without saving' }).click()
  await announced('This is the copy.')
  const copyId = new URL(tab.url()).hash.replace('#/pages/', '')
  t.not(copyId, id)
  t.equal(await readText(copyId), text)
  t.equal(await readText(id), text)
  await tab.getByText('No unsaved changes').waitFor()
})

t.test('a page leads to the website of its owner, with its ids and without a token', async (t) => {
  const { id, public_id: publicId } = await showNew('{"title": "On the site"}')
  const link = tab.getByRole('link', { name: 'View the page' })
  await tab.getByRole('button', { name: 'View the page' }).click()
  const dialog = dialogOf('Where does your website show this page?')
  const contents = dialog.getByRole('link', { name: 'what your website gets' })
  t.equal(await contents.getAttribute('href'), `${url}/landing_pages/${publicId}`)
  await checkScreen(t, tab, 'a page without a website')
  await dialog.getByRole('link', { name: 'Enter the address of your website' }).click()
  const address = tab.getByLabel('Address of a page on your website')
  await checkScreen(t, tab, 'my site')
  await address.fill('www.example.com')
  await tab.getByRole('button', { name: 'Save' }).click()
  await tab.getByRole('alert').getByText('Begin the address with https:').waitFor()
  await address.fill(' https://www.example.com/{public_id}?id={id}#{token} ')
  await tab.getByRole('button', { name: 'Save' }).click()
  await announced('Saved.')
  await showPage(tab, { id } as Parameters<typeof showPage>[1])
  t.equal(await link.getAttribute('href'), `https://www.example.com/${publicId}?id=${id}#`)
  t.equal(await link.getAttribute('target'), '_blank')
  t.equal(await link.getAttribute('rel'), 'noopener noreferrer')
  await checkScreen(t, tab, 'a page with a website')
  await owner.call('PUT', `${url}/auth/settings`, { text: '{"preview_url": null}' })
})

t.test('a part of the console that is gone after an upgrade is explained, with a way on', async (t) => {
  const { id } = await owner.createPage(url, '{"title": "Behind an upgrade"}')
  const other = await profile.newPage()
  await other.route('**/console/assets/*.js', async (route) => {
    // The parts of the first load are those that the page itself names.
    if (/\/(?:fields|editor)[^/]*$/.test(route.request().url())) {
      return await route.fulfill({ status: 404 })
    }
    await route.continue()
  })
  let looks = 0
  await other.route('**/console/settings.json', async (route) => {
    const response = await route.fetch()
    const settings = await response.json() as object
    await route.fulfill({ response, json: looks++ === 0 ? settings : { ...settings, version: 'newer' } })
  })
  await other.goto(`${url}/console/#/pages/${id}`)
  await other.getByRole('alert').getByText('The console was updated. Reload this page to go on.').waitFor()
  await checkScreen(t, other, 'a missing part')
  await other.unrouteAll()
  await other.getByRole('button', { name: 'Reload this page' }).click()
  await other.getByRole('searchbox', { name: 'Find a field' }).waitFor()
  await other.close()
})

t.test('a page is deleted after a question', async (t) => {
  const { id } = await showNew('{"title": "To be deleted"}')
  await typeAtStart(tab, ' ')
  await tab.getByRole('button', { name: 'Delete the page' }).click()
  const dialog = dialogOf('Delete this page?')
  await dialog.getByText('To be deleted').waitFor()
  await checkScreen(t, tab, 'question about deleting a page')
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  t.equal((await owner.call('GET', `${url}/manage/landing_pages/${id}`)).status, 200)
  await tab.getByRole('button', { name: 'Delete the page' }).click()
  await dialog.getByRole('button', { name: 'Delete the page' }).click()
  await tab.getByRole('heading', { name: 'Pages', level: 1 }).waitFor()
  t.equal((await owner.call('GET', `${url}/manage/landing_pages/${id}`)).status, 404)
})

t.test('in a narrow window, versions are compared in one column', async (t) => {
  const { id } = await showNew('{"title": "Hid\u200bden \u202eorder"}')
  await owner.update(url, id, '{"title": "Hidden \u202eorder"}')
  await openTab('History')
  const viewport = tab.viewportSize()
  await tab.setViewportSize({ width: 360, height: 640 })
  await tab.getByRole('button', { name: 'Changes in version 2' }).click()
  const dialog = dialogOf('Version 1 and version 2')
  await dialog.getByRole('textbox', { name: 'Version 2, with what was removed' }).waitFor()
  t.equal(await dialog.getByRole('textbox').count(), 1)
  // Characters that can't be seen are spelled, also in what was removed.
  const text = await dialog.getByRole('textbox').innerText()
  t.match(text, /Hid⟨U\+200B⟩den ⟨U\+202E⟩order/)
  t.match(text, /Hidden ⟨U\+202E⟩order/)
  t.notMatch(text, /[\u200b\u202e]/)
  await dialog.getByRole('button', { name: 'Close' }).click()
  if (viewport !== null) await tab.setViewportSize(viewport)
})

const styleOf = async (element: Locator, name: string): Promise<string | undefined> =>
  await element.evaluate(
    (node, name) =>
      (globalThis as unknown as { getComputedStyle(of: unknown): Record<string, string> })
        .getComputedStyle(node)[name],
    name
  )

t.test('in forced colours, the current tab and area and all differences can be told apart', async (t) => {
  const { owner, tab } = await startOwner(t, browser, url, { forcedColors: 'active' })
  const page = await owner.createPage(url, '{"title": "Summer"}')
  await owner.update(url, page.id, '{"title": "Winter"}')
  await showPage(tab, page)
  const tabs = tab.getByRole('navigation', { name: 'This page' }).getByRole('link')
  const views = tab.getByRole('group', { name: 'Show as' }).getByRole('button')
  const areas = tab.getByRole('navigation', { name: 'Areas' }).getByRole('link')
  for (
    const [links, style] of [
      [tabs, 'borderBottomColor'],
      [views, 'backgroundColor'],
      [areas, 'backgroundColor']
    ] as const
  ) t.not(await styleOf(links.nth(0), style), await styleOf(links.nth(1), style))
  await tabs.getByText('History').click()
  await tab.getByRole('button', { name: 'Changes in version 2' }).click()
  const dialog = tab.getByRole('dialog')
  const lineOf = async (text: string) => await styleOf(dialog.locator(text).first(), 'textDecorationLine')
  t.equal(await lineOf('.cm-merge-a .cm-changedText'), 'line-through')
  t.equal(await lineOf('.cm-merge-b .cm-changedText'), 'underline')
  await tab.setViewportSize({ width: 360, height: 640 })
  t.equal(await lineOf('.cm-deletedText'), 'line-through')
  t.equal(await lineOf('.cm-changedText'), 'underline')
})
