import t from 'tap'
import { PASSWORD } from '../../helpers/app.ts'
import { PNG } from '../../helpers/assets.ts'
import { checkScreen, dropFiles, editorOf, pasteFiles, save, showFields, startConsole, typeAtStart,
  testFile } from '../../helpers/console.ts'
import { provide } from '../../shared/programs.ts'

// Assets that come into the text of a page: dropped, pasted or chosen.

const { url, owner, tab, showNew, readText, announced } = await startConsole(t, provide('chromium'))

const picture = (name: string) => testFile(name, PNG)
const drawing = testFile('drawing.svg', '<svg xmlns="http://www.w3.org/2000/svg"/>')

/** Saves, and returns the document, in which each asset's URL is replaced by the name of its file. */
async function saved (id: string): Promise<string> {
  await save(tab)
  const text = await readText(id)
  const assets = (await owner.call('GET', `${url}/assets`)).json() as {
    url: string
    filename: string
  }[]
  return assets.reduce((document, asset) => document.replaceAll(asset.url, asset.filename), text)
}

t.test('a file that is dropped on a string is uploaded and takes its place', async (t) => {
  const { id } = await showNew('{\n  "image": "old.png",\n  "alt": "A tent"\n}')
  await typeAtStart(tab, '')
  await dropFiles(tab, [drawing], editorOf(tab).getByText('"old.png"'))
  await announced('Uploaded and inserted: drawing.svg')
  t.equal(await saved(id), '{\n  "image": "drawing.svg",\n  "alt": "A tent"\n}')
  await tab.keyboard.press('Control+z')
  t.equal(await saved(id), '{\n  "image": "old.png",\n  "alt": "A tent"\n}')
})

t.test('a picture that is pasted is uploaded and inserted, and pasted text stays text', async (t) => {
  const { id } = await showNew('["", 1]')
  await typeAtStart(tab, '')
  for (let count = 0; count < 2; count++) await tab.keyboard.press('ArrowRight')
  await pasteFiles(tab, [picture('pasted.png')])
  await announced('Uploaded and inserted: pasted.png')
  t.equal(await saved(id), '["pasted.png", 1]')
  await pasteFiles(tab, [picture('copy-of-text.png')], ', 2')
  t.equal(await saved(id), '["pasted.png", 2, 1]')
})

t.test('files that are dropped beside the editor are inserted at the cursor, as a list', async (t) => {
  const { id } = await showNew('{"pictures": []}')
  await typeAtStart(tab, '')
  await tab.keyboard.press('Control+End')
  for (let count = 0; count < 2; count++) await tab.keyboard.press('ArrowLeft')
  await dropFiles(tab, [picture('1.png'), picture('2.png'), picture('3.png')])
  await announced('Uploaded and inserted: 3 files')
  t.equal(await saved(id), '{"pictures": ["1.png", "2.png", "3.png"]}')
})

t.test('where there is place for one file, others are said to be uploaded only', async (t) => {
  const { id } = await showNew('{"picture": "old"}')
  await dropFiles(tab, [picture('4.png'), picture('5.png')], editorOf(tab).getByText('"old"'))
  await announced('Uploaded: 2 files. Only 4.png is inserted')
  t.equal(await saved(id), '{"picture": "4.png"}')
})

t.test('a file comes to where it was dropped, while a person goes on typing elsewhere', async (t) => {
  const { id } = await showNew('{\n  "title": "",\n  "picture": "old"\n}')
  let goOn = () => {}
  const waiting = new Promise<void>((resolve) => {
    goOn = resolve
  })
  const isUpload = (target: URL) => target.pathname === '/assets'
  await tab.route(isUpload, async (route) => {
    await waiting
    await route.continue()
  })
  await dropFiles(tab, [picture('late.png')], editorOf(tab).getByText('"old"'))
  await typeAtStart(tab, '')
  await tab.keyboard.press('ArrowDown')
  await tab.keyboard.press('End')
  for (let count = 0; count < 2; count++) await tab.keyboard.press('ArrowLeft')
  await tab.keyboard.type('A long')
  goOn()
  await announced('Uploaded and inserted: late.png')
  await tab.keyboard.type(' title')
  await tab.unroute(isUpload)
  t.equal(await saved(id), '{\n  "title": "A long title",\n  "picture": "late.png"\n}')
})

t.test('on another tab of a page, files are uploaded only', async (t) => {
  const { id } = await showNew('[1]')
  await tab.getByRole('link', { name: 'History' }).click()
  await tab.getByRole('region', { name: 'History' }).waitFor()
  await dropFiles(tab, [picture('history.png')])
  await announced('Uploaded: history.png. Choose it with “Insert an asset”.')
  t.ok(tab.url().endsWith(`${id}/history`))
  await tab.getByRole('link', { name: 'Edit' }).click()
  await typeAtStart(tab, '')
  t.equal(await saved(id), '[1]')
})

t.test('in the fields of a page, a file that is dropped on none is uploaded only', async (t) => {
  const page = await owner.createPage(url, '{"title": "Fields"}')
  await showFields(tab, page)
  await dropFiles(tab, [picture('field.png')])
  await announced('Uploaded: field.png. Choose it with “Replace”.')
  await tab.getByText('No unsaved changes').waitFor()
  t.ok(tab.url().endsWith(page.id))
})

t.test('while files are dragged over a page, it says where they go', async (t) => {
  await showNew('[1]')
  await tab.evaluate(`(() => {
    const dataTransfer = new DataTransfer()
    dataTransfer.items.add(new File(['x'], 'x.txt'))
    document.body.dispatchEvent(new DragEvent('dragover', { dataTransfer, bubbles: true }))
  })()`)
  await tab.getByText('Drop files to upload them.').waitFor()
  await checkScreen(t, tab, 'a page with files over it')
  await tab.evaluate("dispatchEvent(new DragEvent('dragleave'))")
  await tab.getByText('Drop files to upload them.').waitFor({ state: 'detached' })
})

t.test('an upload that the end of a session interrupts goes on after the sign-in', async (t) => {
  const { id } = await showNew('[]')
  await typeAtStart(tab, '')
  await tab.keyboard.press('ArrowRight')
  await owner.call('DELETE', `${url}/auth/sessions`)
  await dropFiles(tab, [picture('again.png')])
  const dialog = tab.getByRole('dialog', { name: 'Your session has ended' })
  await dialog.getByLabel('Password').fill(PASSWORD)
  await dialog.getByRole('button', { name: 'Sign in' }).click()
  await announced('Uploaded and inserted: again.png')
  t.equal(await saved(id), '["again.png"]')
})

t.test('an asset that is chosen takes the place of the whole string, or of the value of a name', async (t) => {
  await owner.upload(url, PNG, 'chosen.png')
  const { id } = await showNew('{"picture": "https://example.com/old.png", "price": 1.50}')
  const choose = async () => {
    await tab.getByRole('button', { name: 'Insert an asset' }).click()
    const dialog = tab.getByRole('dialog', { name: 'Choose an asset' })
    await dialog.getByRole('button', { name: 'chosen.png' }).click()
    await dialog.waitFor({ state: 'detached' })
    await editorOf(tab).and(tab.locator(':focus')).waitFor()
  }
  await typeAtStart(tab, '')
  for (let count = 0; count < 20; count++) await tab.keyboard.press('ArrowRight')
  await choose()
  t.equal(await saved(id), '{"picture": "chosen.png", "price": 1.50}')
  await tab.keyboard.press('Control+z')
  await typeAtStart(tab, '')
  for (let count = 0; count < 4; count++) await tab.keyboard.press('ArrowRight')
  await choose()
  t.equal(await saved(id), '{"picture": "chosen.png", "price": 1.50}')
  await tab.keyboard.press('Control+z')
  t.equal(await saved(id), '{"picture": "https://example.com/old.png", "price": 1.50}')
})
