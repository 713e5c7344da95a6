import t from 'tap'
import { startServiceOnPostgres, testSettings } from '../../helpers/app.ts'
import { checkScreen, startConsole, startOwner } from '../../helpers/console.ts'
import { isSignedWith, RECEIVABLE, startReceiver } from '../../helpers/receiver.ts'
import { query } from '../../helpers/servers.ts'
import { provide } from '../../shared/programs.ts'
import { until } from '../../helpers/until.ts'

// Webhooks in the console, with a receiver that really gets the messages.

const { DATABASE_URL: database = '' } = await testSettings(t)
const { url, browser, owner, tab, button, dialogOf, announced } = await startConsole(
  t,
  provide('chromium'),
  {},
  { ...RECEIVABLE, DATABASE_URL: database }
)

const main = tab.getByRole('main')
const messages = tab.getByRole('region', { name: 'Messages' }).getByRole('listitem')
/** Waits until the newest message is as expected, without loading the screen again. */
const newest = async (text: RegExp) => await messages.first().filter({ hasText: text }).waitFor()

/** Copies the secret that is shown, and closes its dialog. */
async function takeSecret (): Promise<string> {
  const dialog = dialogOf('The secret of the webhook')
  await dialog.getByText('It is shown only this once.').waitFor()
  await tab.keyboard.press('Escape')
  await dialog.getByRole('button', { name: 'Copy secret' }).click()
  const secret = await tab.evaluate<string>('navigator.clipboard.readText()')
  await dialog.getByRole('button', { name: 'I have copied it' }).click()
  return secret
}

t.test('an owner connects a receiver, sees what became of its messages, and disconnects it', async (t) => {
  let status = 204
  const receiver = await startReceiver(t, () => status)
  const sale = await owner.createPage(url, '{"title": "Summer sale"}')
  await owner.createPage(url, '{"title": "Opening hours"}')

  await tab.getByRole('link', { name: 'Account', exact: true }).click()
  await tab.getByRole('link', { name: 'Webhooks' }).click()
  await main.getByText('You have no webhooks.').waitFor()
  await checkScreen(t, tab, 'no webhooks')

  // Each problem stands at its field.
  await button('New webhook').click()
  const form = dialogOf('New webhook')
  await form.getByLabel('URL').fill('ftp://example.com')
  await form.getByLabel('Name', { exact: true }).fill('Website build')
  await form.getByLabel('a page is published').uncheck()
  await form.getByLabel('a page is unpublished').uncheck()
  await form.getByLabel('a page is deleted').uncheck()
  await form.getByLabel('About').selectOption('Only some pages')
  await form.getByRole('button', { name: 'Create the webhook' }).click()
  await form.getByText('URL must be an https:// address').waitFor()
  t.equal(await form.getByLabel('URL').getAttribute('aria-invalid'), 'true')
  await form.getByRole('group', { name: 'Send a message when' }).getByText('Choose at least one event.')
    .waitFor()
  await form.getByText('Choose at least one page.').waitFor()
  await checkScreen(t, tab, 'a refused webhook')
  await form.getByLabel('URL').fill(receiver.url)
  await form.getByLabel('a page is published').check()
  await form.getByLabel('a page is unpublished').check()
  await form.getByLabel('Find a page').fill('sum')
  await form.getByRole('button', { name: 'Add Opening hours' }).waitFor({ state: 'detached' })
  await tab.keyboard.press('Enter')
  await form.getByRole('button', { name: 'Add Summer sale' }).click()
  await form.getByRole('button', { name: 'Remove Summer sale' }).waitFor()
  await checkScreen(t, tab, 'a new webhook')
  await form.getByRole('button', { name: 'Create the webhook' }).click()
  await dialogOf('The secret of the webhook').waitFor()
  await checkScreen(t, tab, 'a secret')
  const secret = await takeSecret()
  t.notOk((await tab.content()).includes(secret), 'the secret is gone')

  await tab.getByText('Nothing was sent yet.').waitFor()
  await button('Send a test').click()
  await newest(/Test[^]*Delivered[^]*1 attempt, status 204/)
  t.match(await receiver.message(1), { type: 'webhook.test' })
  t.ok(isSignedWith(secret, await receiver.message(1)))

  // What happens elsewhere is seen when it is looked at; then the list follows by itself.
  status = 500
  await owner.call('POST', `${url}/manage/landing_pages/${sale.id}/unpublish`)
  await receiver.message(2)
  await tab.reload()
  await newest(/Page unpublished[^]*Waiting[^]*The response had the status 500/)
  await main.getByText('Messages have not got through since').waitFor()
  await tab.getByRole('heading', { name: 'Website build' }).getByText('failing').waitFor()
  await checkScreen(t, tab, 'a webhook with a failure')
  status = 204
  await query(database, "UPDATE outbox SET due_at = now() WHERE state = 'waiting'")
  const undelivered = "SELECT 1 FROM outbox WHERE state <> 'delivered'"
  await until(async () => (await query(database, undelivered)).length === 0, 'the message is delivered')
  await tab.evaluate("document.dispatchEvent(new Event('visibilitychange'))") // the person comes back
  await newest(/Page unpublished[^]*Delivered[^]*attempts/)
  const count = receiver.messages.length
  await button('Redeliver Page unpublished').click()
  t.match(await receiver.message(count + 1), { type: 'page.unpublished' })
  await until(async () => await messages.count() === 3, 'the list has the new message')
  await newest(/Delivered/)

  await button('Pause').click()
  await main.getByText('You have paused it. Messages wait until you resume it.').waitFor()
  await owner.call('POST', `${url}/manage/landing_pages/${sale.id}/publish`)
  await tab.reload()
  await newest(/Page published[^]*Waiting[^]*It waits until the webhook is resumed/)
  await button('Resume').click()
  await newest(/Page published[^]*Delivered/)

  // Its pages and events stay as they are when its name is changed.
  await button('Edit').click()
  const edit = dialogOf('Edit the webhook')
  await edit.getByRole('button', { name: 'Remove Summer sale' }).waitFor()
  await edit.getByLabel('Name', { exact: true }).fill('Build')
  await edit.getByLabel('How soon').selectOption('After 1 minute')
  await edit.getByRole('button', { name: 'Save' }).click()
  await tab.getByRole('heading', { name: /^Build/ }).waitFor()
  const { text } = await owner.call('GET', `${url}/webhooks`)
  t.match(JSON.parse(text), [{
    name: 'Build',
    url: receiver.url,
    pages: [sale.id],
    events: ['page.published', 'page.unpublished'],
    batch_seconds: 60
  }])

  await button('New secret').click()
  const question = dialogOf('Make a new secret?')
  await question.getByText('For 24 hours, messages are signed with the old secret and the new one.').waitFor()
  await checkScreen(t, tab, 'the question about a new secret')
  await question.getByRole('button', { name: 'Make a new secret' }).click()
  const next = await takeSecret()
  await button('Send the state of every page').click()
  await checkScreen(t, tab, 'the question about all pages')
  const before = receiver.messages.length
  await dialogOf('Send the state of every page?').getByRole('button', { name: 'Send', exact: true }).click()
  await announced('1 message is on its way.')
  const both = await receiver.message(before + 1)
  t.ok(isSignedWith(secret, both) && isSignedWith(next, both), 'both secrets sign')
  await newest(/Pages changed[^]*Delivered/)

  await tab.getByRole('link', { name: 'All webhooks' }).click()
  const row = main.getByRole('listitem').filter({ hasText: 'Build' })
  await row.getByText('active').waitFor()
  await row.getByText('Last message: delivered').waitFor()
  await checkScreen(t, tab, 'webhooks')
  await row.getByRole('link', { name: 'Build' }).click()
  await button('Delete').click()
  await checkScreen(t, tab, 'the question about a webhook')
  await dialogOf('Delete this webhook?').getByRole('button', { name: 'Delete the webhook' }).click()
  await main.getByText('You have no webhooks.').waitFor()
})

t.test('a webhook that is gone, and one that the receiver has ended, say so', async (t) => {
  const receiver = await startReceiver(t, () => 410)
  const { text } = await owner.call('POST', `${url}/webhooks`, { json: { url: receiver.url } })
  const { id } = JSON.parse(text) as { id: string }
  await owner.createPage(url, '{}')
  await receiver.message(1)
  await tab.evaluate(`location.hash = '#/account/webhooks/${id}'`)
  await main.getByText('It was paused because the receiver said that it is gone for good').waitFor()
  t.equal(await main.getByText(receiver.url).count(), 1)
  await owner.call('DELETE', `${url}/webhooks/${id}`)
  await tab.reload()
  await main.getByText('This webhook was deleted').waitFor()
  await checkScreen(t, tab, 'a webhook that is gone')
})

t.test('where the service has no webhooks, the console shows none', async (t) => {
  const { url } = await startServiceOnPostgres(t, { WEBHOOKS: 'false' })
  const { tab } = await startOwner(t, browser, url)
  await tab.getByRole('link', { name: 'Account', exact: true }).click()
  await tab.getByRole('link', { name: 'API keys' }).waitFor()
  t.equal(await tab.getByRole('link', { name: 'Webhooks' }).count(), 0)
})
