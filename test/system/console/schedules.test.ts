import t from 'tap'
import { type CreatedPage } from '../../helpers/app.ts'
import { checkScreen, editorOf, showFields, showText, startConsole } from '../../helpers/console.ts'
import { provide } from '../../shared/programs.ts'

// Schedules in the console, for a person in Berlin, whose clock has 24 hours.

const { url, owner, tab, button, announced, visit } = await startConsole(t, provide('chromium'), {
  timezoneId: 'Europe/Berlin',
  locale: 'de-DE'
})

const dialog = tab.getByRole('dialog', { name: 'Schedule' })
const title = tab.getByRole('textbox', { name: 'Title' })
const inputOf = (label: string) => dialog.getByLabel(label)

const scheduleUrl = ({ id }: CreatedPage) => `${url}/manage/landing_pages/${id}/schedule`
const readSchedule = async (page: CreatedPage) =>
  (await owner.call('GET', scheduleUrl(page))).json() as unknown

t.test('a draft is scheduled in local time, and cannot be changed until then', async (t) => {
  const page = await owner.createPage(url, '{"title": "Old", "list": [{"name": "Tent"}]}')
  await showFields(tab, page)
  await title.fill('Summer')
  await button('Schedule').click()
  const publishAt = inputOf('Publish the draft at')
  await publishAt.fill('2029-01-15T09:00')
  await dialog.getByText('Monday, January 15, 2029 at 09:00 (UTC+01:00, Europe/Berlin)').waitFor()
  await publishAt.fill('2029-03-25T02:30')
  await dialog.getByText(/March 25, 2029 at 03:30 .*, because the clock skips 02:30 on that day/).waitFor()
  await publishAt.fill('2029-07-02T09:00')
  await dialog.getByText('Monday, July 2, 2029 at 09:00 (UTC+02:00, Europe/Berlin)').waitFor()
  await dialog.getByText('In UTC: Jul 2, 2029, 07:00').waitFor()
  await checkScreen(t, tab, 'the dialog of a schedule')
  await dialog.getByRole('button', { name: 'Set the schedule' }).click()
  await announced('The schedule is set.')
  await dialog.waitFor({ state: 'detached' })
  t.same(await readSchedule(page), { publish_at: '2029-07-02T07:00:00.000Z', unpublish_at: null })
  const draft = await owner.call('GET', `${url}/manage/landing_pages/${page.id}/draft`)
  t.equal(draft.text, '{"title": "Summer", "list": [{"name": "Tent"}]}')
  t.equal(await visit(page), '{"title": "Old", "list": [{"name": "Tent"}]}')

  await tab.getByText('to change it, remove the schedule first').waitFor()
  t.equal(await title.isDisabled(), true)
  t.equal(await tab.getByRole('textbox', { name: 'Name' }).inputValue(), 'Tent', 'nothing is folded')
  t.equal(await button('Save draft').count() + await button('Discard draft').count(), 0)
  await checkScreen(t, tab, 'a scheduled draft')
  await tab.getByRole('searchbox', { name: 'Find a field' }).fill('tent')
  await tab.getByRole('button', { name: 'Name Tent' }).waitFor()
  await showText(tab)
  await editorOf(tab).focus()
  await tab.keyboard.type('typed')
  t.notMatch(await editorOf(tab).innerText(), 'typed')
  await button('Form').click()

  await tab.getByRole('link', { name: 'Pages' }).click()
  await tab.getByRole('listitem').getByText('Publishes Jul 2, 2029, 09:00').waitFor()
  await checkScreen(t, tab, 'a list with a schedule')

  await tab.getByRole('link', { name: 'Old' }).click()
  await button('Change the schedule').click()
  t.equal(await publishAt.inputValue(), '2029-07-02T09:00')
  await dialog.getByRole('button', { name: 'Remove the schedule' }).click()
  await announced('The schedule is removed.')
  await title.fill('Autumn')
  await button('Save draft').click()
  await announced('Draft saved.')
})

t.test('a scheduled draft is published, and the tab that shows it says so', async (t) => {
  const page = await owner.createPage(url, '{"title": "Old"}')
  await owner.call('PUT', `${url}/manage/landing_pages/${page.id}/draft`, { text: '{"title": "On time"}' })
  const soon = new Date(Date.now() + 15_000).toISOString()
  await owner.call('PUT', scheduleUrl(page), { text: `{"publish_at": "${soon}", "unpublish_at": null}` })
  await showFields(tab, page)
  await button('Publish now').waitFor()
  await announced('The draft was published, as it was scheduled.')
  t.equal(await visit(page), '{"title": "On time"}')
  t.equal(await title.isDisabled(), false)
  await tab.getByText('Visitors see this version.').waitFor()
})

t.test('a published page without a draft can be unpublished at a set time', async (t) => {
  const page = await owner.createPage(url, '{"title": "Until then"}')
  await showFields(tab, page)
  await button('Schedule').click()
  await dialog.getByText('save it as a draft first').waitFor()
  await dialog.getByRole('button', { name: 'Unpublish at this time' }).click()
  await dialog.getByRole('alert').getByText('Choose a time').waitFor()
  await inputOf('Unpublish the page at').fill('2029-10-28T02:30')
  await dialog.getByText('the first of the two times that the clock shows this hour').waitFor()
  await dialog.getByRole('button', { name: 'Unpublish at this time' }).click()
  await announced('The schedule is set.')
  t.same(await readSchedule(page), { publish_at: null, unpublish_at: '2029-10-28T00:30:00.000Z' })
  await tab.getByText('Unpublishes Oct 28, 2029, 02:30').waitFor()
  t.equal(await title.isDisabled(), false)
})
