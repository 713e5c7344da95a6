import type { Locator } from 'playwright-core'
import t from 'tap'
import { checkScreen, dropFiles, editorOf, openConsole, pasteFiles, saveFields, showText, startConsole,
  testFile, typeAtStart } from '../../helpers/console.ts'
import { asJpeg, card } from '../../shared/pictures.ts'
import { provide } from '../../shared/programs.ts'

const { url, owner, profile, readText, tab: firstTab } = await startConsole(t, provide('chromium'))

let tab = firstTab
await tab.getByRole('heading', { name: 'Pages', level: 1 }).waitFor()

/** Shows the fields of a new page in a new tab, which takes the place of the one before. */
async function showNew (document: string) {
  const page = await owner.createPage(url, document)
  await tab.close()
  tab = await openConsole(profile, url, `pages/${page.id}`)
  await tab.getByRole('searchbox', { name: 'Find a field' }).waitFor()
  return page
}

const button = (name: string): Locator => tab.getByRole('button', { name, exact: true })

const input = (label: string): Locator => tab.getByLabel(label, { exact: true })

const waitForFocus = async (locator: Locator) => await locator.and(tab.locator(':focus')).waitFor()

const announced = async (text: string) => await tab.getByRole('status').getByText(text).waitFor()

const pictureOf = async (name: string, width: number) =>
  testFile(name, await asJpeg(card({ width, height: 400 })))

const upload = async (name: string, width = 800): Promise<string> => {
  const { text } = await owner.upload(url, await asJpeg(card({ width, height: 600 })), name)
  return JSON.parse(text).url
}

t.test('a person changes a price, a headline and a picture, and nothing else', async (t) => {
  const [beach, lake] = [await upload('beach.jpg'), await upload('lake.jpg')]
  const document =
    '{ "headlineText":"Old \\u0041", "price" : 1.50,\n\t"picture": "PICTURE", "x": 1e400, "y": "\\/" }'
  const { id } = await showNew(document.replace('PICTURE', beach))
  await tab.getByText('Visitors see this version.').waitFor()
  await input('Headline text').fill('New “headline”')
  await input('Price').fill('10.50')
  await tab.getByText('Visitors don’t see them until you save and publish.').waitFor()
  await tab.getByText('beach.jpg').waitFor()
  await button('Replace Picture').click()
  await tab.getByRole('dialog').getByRole('button', { name: 'lake.jpg' }).click()
  await tab.getByText('lake.jpg', { exact: true }).waitFor()
  await waitForFocus(button('Replace Picture'))
  const request = await saveFields(tab)
  t.equal(request.method(), 'PATCH')
  t.match(request.headers()['if-match'], /^"/)
  t.equal(request.headers()['content-type'], 'application/json-patch+json')
  await tab.getByText('Visitors see this version.').waitFor()
  const expected = document.replace('Old \\u0041', 'New “headline”').replace('1.50', '10.50')
  t.equal(await readText(id), expected.replace('PICTURE', lake))
})

t.test('a number that can not be stored is kept, and saving goes there', async (t) => {
  const { id } = await showNew('{"title": "A", "list": [{"name": "Tent", "price": 1.50}]}')
  await button('Tent').click()
  await input('Price').fill('10,50')
  await tab.getByText('Write 10.50, with a point.').waitFor()
  await checkScreen(t, tab, 'a number that is wrong')
  await button('Undo').click()
  await tab.getByText('Write 10.50, with a point.').waitFor({ state: 'detached' })
  t.equal(await input('Price').inputValue(), '1.50')
  await input('Price').fill('10,50')
  await button('Tent').click()
  await button('Save and publish').click()
  await announced('Not saved. Price: Write 10.50, with a point.')
  await waitForFocus(input('Price'))
  t.equal(await input('Price').inputValue(), '10,50')
  t.equal(await readText(id), '{"title": "A", "list": [{"name": "Tent", "price": 1.50}]}')
  await button('Code').click()
  await announced('Price: Write 10.50, with a point.')
  await input('Price').fill('10.50')
  await saveFields(tab)
  t.equal(await readText(id), '{"title": "A", "list": [{"name": "Tent", "price": 10.50}]}')
})

t.test('an entry is added like the last one, moved and removed, and undo brings it back', async (t) => {
  const lamp = '{"name": "Lamp", "price": 2, "new": false}'
  const before = `{"items": [\n  {"name": "Tent", "price": 1.50, "new": true},\n  ${lamp}\n]}`
  const { id } = await showNew(before)
  await button('Add to Items').click()
  await announced('There are 3 now.')
  await waitForFocus(input('Name'))
  await tab.keyboard.type('Chair')
  await tab.keyboard.press('Tab')
  await tab.keyboard.type('3.00')
  await saveFields(tab)
  const added = before.replace('\n]', ',\n  {"name": "Chair", "price": 3.00, "new": false}\n]')
  t.equal(await readText(id), added)
  await checkScreen(t, tab, 'an unfolded entry')

  await button('Move Chair up').focus()
  await tab.keyboard.press('Enter')
  await announced('Chair is now 2 of 3.')
  await waitForFocus(button('Move Chair up'))
  await tab.keyboard.press('Enter')
  await announced('Chair is now 1 of 3.')
  t.equal(await input('Name').inputValue(), 'Chair')
  await button('Remove Tent').click()
  await announced('Removed: Tent. Undo brings it back.')
  await waitForFocus(button('Lamp'))
  await saveFields(tab)
  t.equal(await readText(id), `{"items": [\n  {"name": "Chair", "price": 3.00, "new": false},\n  ${lamp}\n]}`)
  for (let step = 0; step < 5; step++) await button('Undo').click()
  await waitForFocus(input('Name'))
  await saveFields(tab)
  t.equal(await readText(id), before.replace('\n]', ',\n  {"name": "", "price": 0, "new": false}\n]'))
  await button('Redo').click()
  await waitForFocus(input('Name'))
  t.equal(await input('Name').inputValue(), 'Chair')
  await button('Undo').click()
})

t.test('fields are added, renamed and removed', async (t) => {
  const { id } = await showNew('{"title": "A", "list": []}')
  await tab.getByText('For developers').click()
  await button('Add, rename or remove fields').click()
  await checkScreen(t, tab, 'fields that can be renamed')
  await button('Rename Title').click()
  const dialog = tab.getByRole('dialog')
  await dialog.getByLabel('Name').fill('list')
  await dialog.getByRole('alert').getByText('There is a field of this name already.').waitFor()
  await dialog.getByLabel('Name').fill('pageTitle')
  await checkScreen(t, tab, 'the question about a new name')
  await tab.keyboard.press('Enter')
  await waitForFocus(input('Page title'))
  await button('Add a field to the page').click()
  await dialog.getByLabel('Name').fill('inStock')
  await dialog.getByLabel('Kind').selectOption('Yes or no')
  await checkScreen(t, tab, 'the question about a new field')
  await dialog.getByRole('button', { name: 'Add the field' }).click()
  await waitForFocus(tab.getByRole('switch', { name: 'In stock' }))
  await tab.keyboard.press('Space')
  await saveFields(tab)
  t.equal(await readText(id), '{"pageTitle": "A", "list": [], "inStock": true}')
  await input('First entry of List').selectOption('Number')
  await button('Add to List').click()
  await waitForFocus(input('List 1'))
  await button('Remove Page title').click()
  await announced('Removed: Page title')
  await saveFields(tab)
  t.equal(await readText(id), '{"list": [0], "inStock": true}')
})

t.test('a field is found by its words', async (t) => {
  await showNew('{"title": "Shop", "items": [{"name": "Tent", "ticketPrice": 1.50}, {"name": "Lamp"}]}')
  await tab.getByRole('searchbox', { name: 'Find a field' }).fill('tent price')
  await button('Items › Tent › Ticket price 1.50').waitFor()
  await checkScreen(t, tab, 'fields that are found')
  await tab.keyboard.press('Enter')
  await waitForFocus(input('Ticket price'))
  await tab.getByRole('searchbox').fill('nowhere')
  await tab.getByText('No field has these words.').waitFor()
  await tab.keyboard.press('Escape')
  await waitForFocus(tab.getByRole('searchbox'))
})

t.test('Ctrl-Z undoes what was typed, then the edits before, and goes to their fields', async (t) => {
  const { id } = await showNew('{"title": "A", "price": 1.50, "on": true}')
  await input('Price').fill('2.50')
  await tab.getByRole('switch', { name: 'On' }).press('Space')
  await input('Title').focus()
  await tab.keyboard.press('End')
  await tab.keyboard.type('bc')
  await tab.keyboard.press('Control+z')
  await tab.waitForFunction("document.activeElement.value === 'A'")
  await tab.keyboard.press('Control+z')
  await waitForFocus(tab.getByRole('switch', { name: 'On' }))
  await tab.keyboard.press('Control+z')
  await waitForFocus(input('Price'))
  t.equal(await input('Price').inputValue(), '1.50')
  await tab.getByText('No unsaved changes').waitFor()
  await tab.keyboard.press('Control+Shift+z')
  await tab.keyboard.press('Control+s')
  await announced('Saved')
  t.equal(await readText(id), '{"title": "A", "price": 2.50, "on": true}')
})

t.test('Code shows what is not saved yet, and both can undo what the other has changed', async (t) => {
  const { id } = await showNew('{"title": "A", "price": 1.50}')
  await input('Price').fill('2.50')
  await showText(tab)
  await editorOf(tab).getByText('2.50').waitFor()
  await editorOf(tab).focus()
  await tab.keyboard.press('Control+z')
  await tab.getByText('No unsaved changes').waitFor()
  await tab.keyboard.press('Control+y')
  await typeAtStart(tab, ' ')
  await button('Form').click()
  t.equal(await input('Price').inputValue(), '2.50')
  await input('Title').fill('B')
  const request = await saveFields(tab)
  t.equal(request.method(), 'PUT')
  t.equal(await readText(id), ' {"title": "B", "price": 2.50}')
  await button('Undo').click()
  await button('Undo').click()
  await saveFields(tab)
  t.equal(await readText(id), '{"title": "A", "price": 2.50}')
})

t.test('a text that is no JSON stays text until it is mended', async () => {
  await showNew('{"title": "A"}')
  await showText(tab)
  await typeAtStart(tab, '[')
  await button('Form').click()
  await announced('The text has a mistake in line 1.')
  await tab.keyboard.press('Tab')
  await typeAtStart(tab, '')
  await tab.keyboard.press('Delete')
  await button('Form').click()
  await input('Title').waitFor()
})

t.test('a page that was last shown as text opens as text, others as fields', async (t) => {
  const page = await showNew('{"title": "A"}')
  await showText(tab)
  await tab.reload()
  await editorOf(tab).waitFor()
  const other = await showNew('{"title": "B"}')
  await tab.reload()
  await input('Title').waitFor()
  await tab.evaluate(`location.hash = '#/pages/${page.id}'`)
  await editorOf(tab).waitFor()
  t.not(page.id, other.id)
})

const CHANGED = 'This page has changed since you opened it'

t.test('after a conflict, a person saves their own fields, or takes the other version and undoes that', async (t) => {
  const { id } = await showNew('{"title": "Original", "price": 1.50}')
  const conflict = async (theirs: string) => {
    await owner.update(url, id, theirs)
    await tab.keyboard.press('Control+s')
    await tab.getByRole('dialog', { name: CHANGED }).getByText('Your version').first().waitFor()
  }
  await input('Price').fill('2.50')
  await button('Save and publish').focus()
  await conflict('{"title": "Theirs", "price": 3}')
  await checkScreen(t, tab, 'two versions as fields')
  await button('Save my version').click()
  await announced('Saved')
  await waitForFocus(input('Price'))
  t.equal(await readText(id), '{"title": "Original", "price": 2.50}')

  await input('Price').fill('4')
  await conflict('{"title": "Theirs again", "price": 3}')
  await button('Take the other version').click()
  await announced('Undo brings yours back')
  t.equal(await input('Title').inputValue(), 'Theirs again')
  await tab.getByText('No unsaved changes').waitFor()
  await button('Undo').click()
  t.equal(await input('Price').inputValue(), '4')
  await saveFields(tab)
  t.equal(await readText(id), '{"title": "Original", "price": 4}')
})

t.test('the history says what has changed field by field, and shows the code on request', async (t) => {
  const [beach, lake] = [await upload('beach.jpg'), await upload('lake.jpg')]
  const { id } = await showNew(`{"photo": "${beach}", "items": [{"name": "Tent", "price": 1.50}]}`)
  const text =
    `{"photo": "${lake}", "items": [{"name": "Tent", "price": 2.50}, {"name": "Lamp", "price": 3}]}`
  await owner.update(url, id, text)
  await tab.getByRole('link', { name: 'History' }).click()
  await button('Changes in version 2').click()
  const dialog = tab.getByRole('dialog')
  for (const name of ['beach.jpg', 'lake.jpg']) await dialog.getByText(name).waitFor()
  const changes = await dialog.getByRole('listitem').allInnerTexts()
  t.same(changes.map((change) => change.replaceAll(/\s+/g, ' ')), [
    'Photo Changed Version 1 beach.jpg Version 2 lake.jpg',
    'Items › Tent › Price Changed Version 1 1.50 Version 2 2.50',
    'Items › Lamp Added Version 2 Name: Lamp · Price: 3'
  ])
  await checkScreen(t, tab, 'changes by field')
  await button('Show the code').click()
  await dialog.getByRole('textbox', { name: 'Version 2' }).getByText('2.50').waitFor()
  await button('Show the changes by field').click()
  await dialog.getByText('lake.jpg').waitFor()
})

t.test('a picture is dropped, pasted and chosen, and its srcset is copied', async (t) => {
  const { id } = await showNew('{"title": "A", "hero_image": "", "list": [{"photo": ""}]}')
  const jpeg = await pictureOf('dropped.jpg', 700)
  await dropFiles(tab, [jpeg], button('Choose a picture for Hero image'))
  await tab.getByText('dropped.jpg', { exact: true }).waitFor()
  await tab.getByText('700 × 400').waitFor()
  await checkScreen(t, tab, 'a picture')
  await button('Show the address of Hero image').click()
  await button('Copy srcset').click()
  await announced('Copied: srcset')
  t.match(await tab.evaluate('navigator.clipboard.readText()'), /^\S+\/w320\.jpg 320w, \S+\/w640\.jpg 640w$/)
  await button('Replace Hero image').focus()
  await pasteFiles(tab, [await pictureOf('pasted.jpg', 500)])
  await tab.getByText('500 × 400').waitFor()
  await saveFields(tab)
  const { hero_image: picture } = JSON.parse(await readText(id)) as { hero_image: string }
  t.equal((await fetch(picture)).headers.get('content-type'), 'image/jpeg')

  await button('Entry 1').click()
  await button('Choose a picture for Photo').click()
  const dialog = tab.getByRole('dialog')
  await dialog.getByRole('button', { name: '500 × 400' }).click()
  await button('Replace Photo').waitFor()
  await button('Show the address of Photo').click()
  t.equal(await input('Photo').inputValue(), picture)

  await button('Replace Photo').click()
  await dropFiles(tab, [jpeg], dialog)
  await dialog.waitFor({ state: 'detached' })
  t.not(await input('Photo').inputValue(), picture, 'a file that is dropped on the choice is chosen')
})

t.test('after a picture is replaced, its description is asked for', async (t) => {
  const [beach, lake] = [await upload('beach.jpg'), await upload('lake.jpg')]
  const { id } = await showNew(`{"photo": "${beach}", "alt": "A beach", "logo_alt": "A logo"}`)
  const note = tab.getByText('This is the text of the one before.')
  const replace = async () => {
    await button('Replace Photo').click()
    await tab.getByRole('dialog').getByRole('button', { name: 'lake.jpg' }).first().click()
    await announced('Describe the new picture in “Alt”.')
    await note.waitFor()
  }
  await replace()
  await checkScreen(t, tab, 'a picture to describe')
  await button('Undo').click()
  await note.waitFor({ state: 'detached' })
  await replace()
  await input('Alt').fill('A lake')
  await note.waitFor({ state: 'detached' })
  await saveFields(tab)
  t.equal(await readText(id), `{"photo": "${lake}", "alt": "A lake", "logo_alt": "A logo"}`)
})

t.test('a picture that could not be uploaded says so at its field, and is tried again', async () => {
  await showNew('{"photo": ""}')
  await tab.route('**/assets', async (route) => await route.abort())
  await dropFiles(tab, [await pictureOf('late.jpg', 300)], button('Choose a picture for Photo'))
  const form = tab.getByRole('region', { name: 'Edit' })
  await form.getByText('The service can’t be reached.').waitFor()
  await tab.unroute('**/assets')
  await form.getByRole('button', { name: 'Try late.jpg again' }).click()
  await button('Replace Photo').waitFor()
})

t.test('a text gets the line breaks that are pasted, and keeps how its lines end', async (t) => {
  const { id } = await showNew('{"short": "", "long": "a\\r\\nb", "cr": "a\\rb"}')
  await tab.evaluate("navigator.clipboard.writeText('one\\ntwo')")
  await input('Short').focus()
  await tab.keyboard.press('Control+v')
  await waitForFocus(input('Short'))
  await input('Long').fill('a\nc')
  await saveFields(tab)
  t.equal(await readText(id), '{"short": "one\\ntwo", "long": "a\\r\\nc", "cr": "a\\rb"}')
})

t.test('what can not be a field is shown as it is written, and can be changed', async (t) => {
  const { id } = await showNew('{"title": null, "odd": {"a": 1, "a": 2}, "last": 1.0}')
  await input('Odd').fill('{"a": 1, "a": }')
  await tab.getByText('A value is missing before }.').waitFor()
  await checkScreen(t, tab, 'a part that is shown as it is written')
  await input('Odd').fill('{"a": 1, "a": 3}')
  await button('Fill in Title').click()
  await waitForFocus(input('Title'))
  await tab.keyboard.type('B')
  await saveFields(tab)
  t.equal(await readText(id), '{"title": "B", "odd": {"a": 1, "a": 3}, "last": 1.0}')
})

t.test('on a phone, with the keyboard alone, a price is changed and saved', async (t) => {
  const { id } = await owner.createPage(url, '{"title": "A", "items": [{"name": "Tent", "price": 1.50}]}')
  const phone = await openConsole(profile, url, `pages/${id}`)
  await phone.setViewportSize({ width: 360, height: 640 })
  const focused = async () =>
    await phone.evaluate<string>(`(({ labels, ariaLabel, innerText }) =>
      labels?.[0]?.innerText ?? ariaLabel ?? innerText)(document.activeElement)`)
  await phone.getByRole('searchbox').waitFor()
  const tabTo = async (name: string) => {
    for (let step = 0; step < 40 && await focused() !== name; step++) await phone.keyboard.press('Tab')
    t.equal(await focused(), name)
  }
  await tabTo('Tent')
  await phone.keyboard.press('Enter')
  await tabTo('Price')
  await phone.keyboard.press('Control+a')
  await phone.keyboard.type('2.00')
  const arrow = await phone.getByRole('button', { name: 'Move Tent down' }).boundingBox()
  t.ok(arrow !== null && arrow.width >= 40 && arrow.height >= 40, 'arrows are large enough for a finger')
  const visible = await phone.evaluate<boolean>(`(() => {
    const { top, bottom } = document.activeElement.getBoundingClientRect()
    const bar = document.querySelector('.edit__bar').getBoundingClientRect()
    return top >= bar.bottom && bottom <= innerHeight
  })()`)
  t.ok(visible, 'the bar does not hide the field')
  for (const width of [320, 360, 480]) {
    await phone.setViewportSize({ width, height: 640 })
    const rows = await phone.evaluate<number>(`[...document.querySelectorAll('.edit__bar > :not([hidden])')]
      .map((part) => part.getBoundingClientRect()).map(({ top, height }) => top + height / 2)
      .sort((a, b) => a - b).filter((middle, index, all) => middle - (all[index - 1] ?? 0) > 10).length`)
    t.ok(rows <= 2, `the bar has ${rows} rows at ${width} pixels`)
  }
  // The field is at the lower end of the window when something is announced there.
  await phone.setViewportSize({ width: 360, height: 480 })
  await phone.evaluate('document.activeElement.scrollIntoView({ block: "end" })')
  await phone.keyboard.press('Control+s')
  const announcement = phone.getByRole('status').getByText('Saved')
  await announcement.waitFor()
  const field = await phone.locator(':focus').boundingBox()
  const said = await announcement.boundingBox()
  t.ok(field !== null && said !== null && field.y + field.height <= said.y, 'the field is not hidden')
  const bar = await phone.locator('.edit__bar').boundingBox()
  t.ok(bar !== null && said !== null && said.y >= bar.y + bar.height, 'the bar is not hidden')
  await phone.keyboard.press('Escape')
  await announcement.waitFor({ state: 'detached' })
  await phone.getByRole('button', { name: 'Undo' }).click()
  const undone = phone.getByRole('status').getByText('Undone')
  await undone.click()
  await undone.waitFor({ state: 'detached' })
  t.equal(await readText(id), '{"title": "A", "items": [{"name": "Tent", "price": 2.00}]}')
  await phone.close()
})
