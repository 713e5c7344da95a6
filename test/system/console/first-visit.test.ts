import t from 'tap'
import { startServiceOnPostgres } from '../../helpers/app.ts'
import { startBrowser } from '../../helpers/browser.ts'
import { checkScreen, editorOf, newProfile, openConsole, showText,
  signUpInConsole } from '../../helpers/console.ts'
import { asJpeg, card } from '../../shared/pictures.ts'
import { provide } from '../../shared/programs.ts'

// What a person does on the first day.

const { url } = await startServiceOnPostgres(t)
const browser = await startBrowser(t, provide('chromium'))

t.test('a person makes a page with a picture, breaks it, restores it and finds its visitors', async (t) => {
  const profile = await newProfile(t, browser)
  const { page } = await signUpInConsole(profile, url)

  await page.getByRole('button', { name: 'New page' }).click()
  await page.getByLabel('Document').fill('{"title": "Summer sale", "picture": ""}')
  await page.getByRole('button', { name: 'Create the page' }).click()
  await page.getByRole('heading', { name: 'Summer sale', level: 1 }).waitFor()

  await page.getByRole('button', { name: 'Choose a picture for Picture' }).click()
  const picker = page.getByRole('dialog', { name: 'Choose an asset' })
  await picker.getByText('You have no pictures yet.').waitFor()
  await checkScreen(t, page, 'the picker')
  const [chooser] = await Promise.all([
    page.waitForEvent('filechooser'),
    picker.getByRole('button', { name: 'Upload files' }).click()
  ])
  await chooser.setFiles([{
    name: 'photo.jpg',
    mimeType: 'image/jpeg',
    buffer: await asJpeg(card({ width: 1600, height: 1200 }))
  }])
  await picker.waitFor({ state: 'detached' }) // a single upload is chosen
  await page.getByRole('button', { name: 'Save and publish' }).click()
  await page.getByText('No unsaved changes').waitFor()

  await page.getByRole('link', { name: 'Use' }).click()
  const publicUrl = await page.getByText(new RegExp(`^${url}/landing_pages/\\w+$`)).first().innerText()
  const read = async () => await (await fetch(publicUrl)).json() as { title: string, picture: string }
  const { picture } = await read()
  t.equal((await fetch(picture)).headers.get('content-type'), 'image/jpeg')

  await page.getByRole('link', { name: 'Edit' }).click()
  await showText(page)
  const editor = editorOf(page)
  await editor.press('Control+a')
  await page.keyboard.insertText('{"title": "Oops"')
  await page.getByText(/Line 1, column/).first().waitFor()
  await page.keyboard.insertText('}')
  await editor.press('Control+s')
  await page.getByRole('heading', { name: 'Oops', level: 1 }).waitFor()
  t.equal((await read()).title, 'Oops')

  await page.getByRole('link', { name: 'History' }).click()
  await page.getByRole('button', { name: 'Restore version 2' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Restore version 2' }).click()
  await page.getByRole('heading', { name: 'Summer sale', level: 1 }).waitFor()
  t.equal((await read()).picture, picture)

  await page.getByRole('link', { name: 'Visitors' }).click()
  await page.getByText('reads in the last 24 hours').waitFor()
  // Counts arrive every ten seconds, and are shown by themselves.
  await page.getByText('Nobody has read this page').waitFor({ state: 'detached' })
  t.match(await page.getByText('in the last 24 hours').innerText(), /^[1-3] reads? /)
})

t.test('a path that leads nowhere says so', async (t) => {
  const profile = await newProfile(t, browser)
  const { page: first } = await signUpInConsole(profile, url)
  await first.close()
  const page = await openConsole(profile, url, 'nowhere/%00/..')
  await page.getByRole('heading', { name: 'Not found' }).waitFor()
  await checkScreen(t, page, 'not found')
})
