import t from 'tap'
import { type CreatedPage } from '../../helpers/app.ts'
import { checkScreen, editorOf, showFields, showPage, startConsole,
  typeAtStart } from '../../helpers/console.ts'
import { provide } from '../../shared/programs.ts'
import { until } from '../../helpers/until.ts'

// Drafts in the console: what visitors see is what somebody meant to publish.

const { url, owner, tab, button, dialogOf, announced, visit } = await startConsole(t, provide('chromium'))

const title = tab.getByRole('textbox', { name: 'Title' })
const state = tab.getByRole('region', { name: 'Publication' })

const draftUrl = ({ id }: CreatedPage) => `${url}/manage/landing_pages/${id}/draft`
const isKept = async (text: string) =>
  await until(
    async () => (await tab.evaluate<string>('JSON.stringify(sessionStorage)')).includes(text),
    'the text is kept'
  )
const readDraft = async (page: CreatedPage) => (await owner.call('GET', draftUrl(page))).text

/** Shows a page as a form, with a change of its title that is not saved. */
async function changeTitle (text: string, document = '{"title": "Old", "price": 1.50}') {
  const page = await owner.createPage(url, document)
  await showFields(tab, page)
  await title.fill(text)
  return page
}

async function saveDraft (): Promise<void> {
  await button('Save draft').click()
  await announced('Draft saved. Visitors don’t see it until you publish it.')
}

t.test('visitors see a draft when it is published, exactly as it was read', async (t) => {
  const page = await changeTitle('New')
  await saveDraft()
  t.equal(await visit(page), '{"title": "Old", "price": 1.50}')
  await state.getByText('You see the draft').waitFor()
  await checkScreen(t, tab, 'a page with a draft')

  await tab.getByRole('link', { name: 'Pages' }).click()
  const row = tab.getByRole('listitem').filter({ hasText: 'Old' })
  await row.getByText('Draft', { exact: true }).waitFor()
  await checkScreen(t, tab, 'a list with a draft')
  await row.getByRole('link', { name: 'Old' }).click()
  t.equal(await title.inputValue(), 'New')
  await button('Compare with the published version').click()
  const comparison = dialogOf('The draft and the published version')
  await comparison.getByText('Old').waitFor()
  await comparison.getByText('New').waitFor()
  await checkScreen(t, tab, 'the comparison of a draft')
  await comparison.getByRole('button', { name: 'Close' }).click()
  await button('Compare with the published version').and(tab.locator(':focus')).waitFor()

  // What was typed last is saved as a part of the publication.
  await title.fill('Newest')
  await tab.keyboard.press('Control+s')
  await title.fill('Newest of all')
  const published = tab.waitForRequest((request) => request.url().endsWith('/publish'))
  await button('Publish').click()
  await announced('Published. Visitors see it now.')
  t.match((await published).headers()['if-match'], /^"/)
  t.equal(await visit(page), '{"title": "Newest of all", "price": 1.50}')
  await tab.getByText('Visitors see this version.').waitFor()
  t.equal(await button('Discard draft').count(), 0)
  t.equal((await owner.call('GET', draftUrl(page))).status, 404)
})

t.test('a draft that is begun as code keeps every byte', async (t) => {
  const page = await owner.createPage(url, '{"n": 1e400}')
  await showPage(tab, page)
  await button('Save draft').click()
  await announced('There is nothing to save')
  await typeAtStart(tab, '  ')
  await saveDraft()
  t.equal(await readDraft(page), '  {"n": 1e400}')
  t.equal(await visit(page), '{"n": 1e400}')
  await editorOf(tab).focus()
  await tab.keyboard.type(' ')
  await tab.keyboard.press('Control+s')
  await until(async () => await readDraft(page) === '   {"n": 1e400}', 'the draft is saved')
})

t.test('a draft is discarded after a question, and Undo has its text', async (t) => {
  const page = await changeTitle('Discarded')
  await saveDraft()
  await button('Discard draft').click()
  const question = dialogOf('Discard this draft?')
  await checkScreen(t, tab, 'question about discarding a draft')
  await question.getByRole('button', { name: 'Keep the draft' }).click()
  t.equal(await readDraft(page), '{"title": "Discarded", "price": 1.50}')
  await button('Discard draft').click()
  await question.getByRole('button', { name: 'Discard draft' }).click()
  await announced('The draft is discarded.')
  t.equal(await title.inputValue(), 'Old')
  t.equal((await owner.call('GET', draftUrl(page))).status, 404)
  await button('Undo').click()
  t.equal(await title.inputValue(), 'Discarded')
  await button('Redo').click()
})

t.test('a draft does not replace a change that its author has not seen', async (t) => {
  const page = await changeTitle('Draft')
  await saveDraft()
  await owner.update(url, page.id, '{"title": "Correction"}')
  await button('Publish').click()
  const question = dialogOf('The page has changed since this draft was begun')
  await question.getByText(owner.email).waitFor()
  await question.getByText('Correction').waitFor()
  await checkScreen(t, tab, 'question about an outdated draft')
  await question.getByRole('button', { name: 'Go on editing' }).click()
  await question.waitFor({ state: 'detached' })
  t.equal(await visit(page), '{"title": "Correction"}')
  await button('Publish').click()
  await question.getByRole('button', { name: 'Publish anyway' }).click()
  await announced('Published. Visitors see it now.')
  t.equal(await visit(page), '{"title": "Draft", "price": 1.50}')
})

t.test('two people who write a draft see both versions', async (t) => {
  const page = await changeTitle('Mine')
  await owner.call('PUT', draftUrl(page), { text: '{"title": "Theirs"}' })
  await button('Save draft').click()
  const conflict = dialogOf('This page has changed since you opened it')
  await conflict.getByText('Another draft was saved').waitFor()
  await conflict.getByText('Theirs').waitFor()
  await checkScreen(t, tab, 'two drafts')
  await conflict.getByRole('button', { name: 'Save my version' }).click()
  await announced('Draft saved.')
  t.equal(await readDraft(page), '{"title": "Mine", "price": 1.50}')

  // Somebody has published it meanwhile, and nothing that was not read goes live.
  await title.fill('Mine again')
  await owner.call('PUT', draftUrl(page), { text: '{"title": "Theirs again"}' })
  await owner.call('POST', `${url}/manage/landing_pages/${page.id}/publish`)
  await button('Publish').click()
  await conflict.getByText('Yours becomes a draft.').waitFor()
  t.equal(await visit(page), '{"title": "Theirs again"}')
  await conflict.getByRole('button', { name: 'Save my version' }).click()
  await announced('Draft saved.')
  t.equal(await visit(page), '{"title": "Theirs again"}')
  t.equal(await readDraft(page), '{"title": "Mine again", "price": 1.50}')
})

t.test('unsaved text of a draft survives a reload, and stays a draft', async (t) => {
  const page = await changeTitle('Draft')
  await saveDraft()
  await title.fill('Unsaved')
  await isKept('Unsaved')
  await tab.reload()
  const question = dialogOf('Restore what you wrote at')
  await question.getByRole('button', { name: 'Restore' }).click()
  t.equal(await title.inputValue(), 'Unsaved')
  await saveDraft()
  t.equal(await readDraft(page), '{"title": "Unsaved", "price": 1.50}')
  t.equal(await visit(page), '{"title": "Old", "price": 1.50}')

  // The draft is discarded elsewhere: its text must not become what visitors see by a click on Restore.
  await title.fill('Left')
  await isKept('Left')
  await owner.call('DELETE', draftUrl(page))
  await tab.reload()
  await question.getByText('It belonged to a draft').waitFor()
  await question.getByRole('button', { name: 'Restore' }).click()
  await button('Save and publish').click()
  await dialogOf('This page has changed since you opened it').getByText('Left').waitFor()
  t.equal(await visit(page), '{"title": "Old", "price": 1.50}')
  await tab.getByRole('button', { name: 'Take the other version' }).click()
})

t.test('text that the release before has kept belongs to the document', async () => {
  const page = await changeTitle('Kept')
  await isKept('Kept')
  await tab.evaluate(`addEventListener('pagehide', () => {
    const key = 'landfall.unsaved.${page.id}'
    const { format, kind, ...rest } = JSON.parse(sessionStorage.getItem(key))
    sessionStorage.setItem(key, JSON.stringify(rest))
  })`)
  await tab.reload()
  await dialogOf('Restore what you wrote at').getByRole('button', { name: 'Restore' }).click()
  await button('Save and publish').click()
  await announced('Saved. Visitors see it now.')
})

t.test('an unpublished page is saved for nobody, and published when it is ready', async (t) => {
  const page = await changeTitle('Ready')
  await button('Unpublish').click()
  await dialogOf('Unpublish this page?').getByRole('button', { name: 'Unpublish' }).click()
  await announced('Unpublished.')
  await button('Save').click()
  await announced('Saved. Visitors get “Not found” until you publish.')
  t.equal(await visit(page), 404)
  await checkScreen(t, tab, 'an unpublished page')
  await button('Delete the page').click()
  await tab.getByText('Visitors get “Not found” already.').waitFor()
  await button('Cancel').click()
  await tab.getByRole('link', { name: 'Pages' }).click()
  const row = tab.getByRole('listitem').filter({ hasText: 'Ready' })
  await row.getByText('Unpublished', { exact: true }).waitFor()
  await row.getByRole('link', { name: 'Ready' }).click()
  await title.fill('Ready now')
  await button('Publish').click()
  await announced('Published. Visitors see it now.')
  t.equal(await visit(page), '{"title": "Ready now", "price": 1.50}')
  await title.fill('Not ready')
  await saveDraft()
  await button('Unpublish').click()
  const question = dialogOf('Unpublish this page?')
  await question.getByText('You can then publish the draft only').waitFor()
  await question.getByRole('button', { name: 'Keep it published' }).click()
  t.equal(await visit(page), '{"title": "Ready now", "price": 1.50}')
})

t.test('what is not ready does not go online if the page was published meanwhile', async (t) => {
  const published = '{"title": "Ready", "price": 1.50}'
  const page = await changeTitle('Half', published)
  const pageUrl = `${url}/manage/landing_pages/${page.id}`
  const publish = async () => t.equal((await owner.call('POST', `${pageUrl}/publish`)).status, 200)
  const unpublish = async () => t.equal((await owner.call('POST', `${pageUrl}/unpublish`)).status, 200)
  const comeBack = async () => await tab.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
  const question = dialogOf('This page was published since you opened it')
  const answer = async (name: string) => await question.getByRole('button', { name }).click()
  await unpublish()
  await comeBack()
  await button('Save').waitFor()

  await publish()
  await button('Save').click()
  await question.getByText('Half').waitFor()
  await checkScreen(t, tab, 'question about a page that was published meanwhile')
  t.equal(await visit(page), published)
  await answer('Go on editing')
  t.equal(await title.inputValue(), 'Half')
  await button('Save and publish').waitFor()

  await unpublish()
  await comeBack()
  await button('Save').waitFor()
  await publish()
  await button('Save').click()
  await answer('Save as a draft')
  await announced('Draft saved.')
  t.equal(await visit(page), published)
  t.equal(await readDraft(page), '{"title": "Half", "price": 1.50}')

  await owner.call('DELETE', draftUrl(page))
  await unpublish()
  await comeBack()
  await button('Save').waitFor()
  await title.fill('Meant for visitors')
  await publish()
  await button('Save').click()
  await answer('Save and show to visitors')
  await announced('Saved. Visitors see it now.')
  t.equal(await visit(page), '{"title": "Meant for visitors", "price": 1.50}')
})

t.test('a version is restored for visitors only if that was said', async (t) => {
  const page = await changeTitle('Newest')
  await button('Save and publish').click()
  await announced('Saved. Visitors see it now.')
  await tab.getByRole('link', { name: 'History' }).click()
  await tab.getByText('Version 2', { exact: true }).waitFor()
  await button('Unpublish').click()
  await dialogOf('Unpublish this page?').getByRole('button', { name: 'Unpublish' }).click()
  await tab.getByText('Version 3', { exact: true }).waitFor()

  await owner.call('POST', `${url}/manage/landing_pages/${page.id}/publish`)
  await button('Restore version 1').click()
  const dialog = dialogOf('Restore version 1?')
  const restore = dialog.getByRole('button', { name: 'Restore version 1' })
  await restore.click()
  await dialog.getByText('Not restored: the page was published in the meantime.').waitFor()
  t.equal(await visit(page), '{"title": "Newest", "price": 1.50}')
  await dialog.getByText('which visitors see at once').waitFor()
  await tab.getByText('Version 4', { exact: true }).waitFor()
  await restore.click()
  await announced('Restored version 1 as version 5. Visitors see it now.')
  t.equal(await visit(page), '{"title": "Old", "price": 1.50}')
})

t.test('a page is created for nobody, and published when it is ready', async (t) => {
  await tab.getByRole('link', { name: 'Pages' }).click()
  await button('New page').click()
  await tab.getByLabel('Document').fill('{"title": "Not yet"}')
  await tab.getByLabel('Publish it at once').uncheck()
  await button('Create the page').click()
  await announced('Visitors get “Not found” until you publish it.')
  const id = new URL(tab.url()).hash.replace('#/pages/', '')
  const page = (await owner.call('GET', `${url}/manage/landing_pages/${id}`)).json() as CreatedPage
  t.equal(await visit(page), 404)
  await button('Publish').click()
  await announced('Published. Visitors see it now.')
  t.equal(await visit(page), '{"title": "Not yet"}')
})

t.test('a preview link shows the draft until it is revoked', async (t) => {
  const page = await changeTitle('For Ada')
  await saveDraft()
  const dialog = dialogOf('Preview links')
  const create = async (name: string, what: string) => {
    await dialog.getByLabel('Who is it for?').fill(name)
    await dialog.getByRole('button', { name: `Create a ${what}` }).click()
    await dialog.getByText('now. It is shown only this once.').and(tab.locator(':focus')).waitFor()
    return await dialog.getByRole('code').first().innerText()
  }
  const preview = async (token: string) => {
    const headers = { authorization: `Bearer ${token}` }
    const response = await fetch(`${url}/previews/${page.public_id}`, { headers })
    return response.ok ? await response.text() : response.status
  }
  await button('Preview links').click()
  await dialog.getByText('The console doesn’t know how your website shows drafts').waitFor()
  const token = await create('Bo', 'token')
  t.equal(await preview(token), '{"title": "For Ada", "price": 1.50}')
  await dialog.getByRole('button', { name: 'Close' }).click()

  const address = 'https://www.example.com/{public_id}#{token}'
  await owner.call('PUT', `${url}/auth/settings`, { text: JSON.stringify({ preview_url: address }) })
  await button('Preview links').click()
  const link = await create('Ada', 'link')
  t.equal(await dialog.getByRole('link', { name: 'Open' }).getAttribute('href'), link)
  const [before = '', ownToken = ''] = link.split('#')
  t.equal(before, `https://www.example.com/${page.public_id}`)
  t.equal(await preview(ownToken), '{"title": "For Ada", "price": 1.50}')
  await checkScreen(t, tab, 'preview links')
  await dialog.getByRole('button', { name: 'Revoke Ada' }).click()
  await announced('Revoked: Ada.')
  await dialog.getByText(ownToken).waitFor({ state: 'detached' })
  t.equal(await preview(ownToken), 401)
  t.equal(await preview(token), '{"title": "For Ada", "price": 1.50}')
  await dialog.getByRole('button', { name: 'Close' }).click()
  await button('Preview links').and(tab.locator(':focus')).waitFor()
})
