import t from 'tap'
import { checkScreen, editorOf, save, showPage, startConsole, typeAtStart } from '../../helpers/console.ts'
import { provide } from '../../shared/programs.ts'

const { url, owner, tab } = await startConsole(t, provide('chromium'))

/** Creates a page. Its document may have white space around it, unlike in a record. */
async function createExactPage (text: string) {
  const page = await owner.createPage(url, '{}')
  const response = await owner.call('PUT', `${url}/manage/landing_pages/${page.id}/document`, { text })
  t.equal(response.status, 204)
  return { ...page, etag: response.headers.get('etag') as string }
}

async function readDocument (id: string) {
  const { text, headers } = await owner.call('GET', `${url}/manage/landing_pages/${id}/document`)
  return { text, etag: headers.get('etag') }
}

/** Values that programs which parse and write JSON, or show text, would change. */
const DELICATE = [
  '{"a": 1e400, "b": 1.0, "c": -0, "d": 12345678901234567890, "e": 1E+02}', // digits
  '["\\ud800", "\\udfff\\ud83d", "\\ud83d\\ude00"]', // lone surrogates
  '{"a": 1, "a": 2, "\\u0061": 3}', // repeated names
  '{"__proto__": {"a": 1}, "constructor": 1, "toString": null, "": 0}', // names of the language
  '["\u2028", "\u2029", "\u0085"]', // lines in JavaScript
  '{"title": "\u202eabc\u202c \u2066\u05d0\u05d1\u2069 \u200f", "\u05d0": "\u0627"}', // bidirectional text
  '["\\u0000", "\\u001f", "\u007f", "\u009f"]', // controls
  '["\ufeff", "\u00a0", "\u200b", "\u3000", "\u00ad"]', // byte order marks and spaces
  '["\u{1f600}", "\u{10ffff}", "e\u0301", "\u{1f468}\u200d\u{1f469}", "\ufe0f"]', // astral and combining
  '["\\/", "\\u0041", "</script>"]' // escapes that are not needed
]

const DOCUMENTS: ReadonlyArray<readonly [what: string, text: string]> = [
  ['values that programs change, and empty lines around it', `\n\n  [${DELICATE.join(',\n')}]  \n\n\n`],
  ['lines that end with CRLF', '{\r\n\t"a": 1,\r\n\t"b": 2\r\n}\r\n'],
  ['lone carriage returns', '{\r"a":\r1\r}\r'],
  ['the deepest nesting', '['.repeat(100) + ']'.repeat(100)],
  // A test of the editor has a document of 30,000 lines.
  ['1 MiB in one line', `[${'{"a":1},'.repeat(130_000)}0]`]
]

for (const [what, text] of DOCUMENTS) {
  t.test(`a document with ${what} is changed by nothing but typing`, async (t) => {
    const page = await createExactPage(text)
    await showPage(tab, page)
    await save(tab)
    t.equal((await readDocument(page.id)).etag, page.etag)
    await typeAtStart(tab, ' x')
    await tab.getByText('Unsaved changes', { exact: true }).waitFor()
    await tab.keyboard.press('Backspace')
    await tab.keyboard.press('Backspace')
    await tab.getByText('No unsaved changes').waitFor()
    await save(tab)
    const saved = await readDocument(page.id)
    t.equal(saved.etag, page.etag)
    t.ok(saved.text === text)
    await typeAtStart(tab, '  ')
    await tab.keyboard.press('Control+End')
    await tab.keyboard.type(' ')
    await save(tab)
    t.ok((await readDocument(page.id)).text === `  ${text} `)
  })
}

t.test('typing beside any character and deleting that leaves the document as it was', async (t) => {
  const text =
    '[\r\n"\u202ea\u2066\u05d0", "\u{1f600}e\u0301\u200b", "\ufeff\u2028\u00a0\u0085", 1e400\r]\r\n'
  const page = await createExactPage(text)
  await showPage(tab, page)
  await typeAtStart(tab, '')
  for (let step = 0; step <= text.length; step++) {
    await tab.keyboard.type('y')
    await tab.keyboard.press('Backspace')
    await tab.keyboard.press('ArrowRight')
  }
  await tab.getByText('No unsaved changes').waitFor()
  // The steps are those of the eye, which differ in bidirectional text.
  await tab.keyboard.press('Control+End')
  await tab.keyboard.type(' ')
  await save(tab)
  t.equal((await readDocument(page.id)).text, `${text} `)
})

t.test('what is pasted is kept exactly', async (t) => {
  const page = await createExactPage('[]')
  await showPage(tab, page)
  await typeAtStart(tab, '')
  await tab.keyboard.press('ArrowRight')
  const pasted = '"\u202e", "\u00a0", "\u2028",\r\n1e400, "\ufeff"'
  await tab.evaluate(`navigator.clipboard.writeText(${JSON.stringify(pasted)})`)
  await tab.keyboard.press('Control+v')
  await save(tab)
  t.equal((await readDocument(page.id)).text, `[${pasted}]`)
})

const ATTACK = {
  title: '<script>window.attacked = 1</script><img src=x onerror="window.attacked = 1">\u202e\u2028',
  '"><svg onload="window.attacked = 1">': 'javascript:window.attacked = 1',
  '</style></script>': "'-window.attacked-'"
}

t.test("an attacker's document never runs and is never shown as HTML", async (t) => {
  const page = await createExactPage(JSON.stringify(ATTACK))
  await showPage(tab, page)
  await tab.getByRole('heading', { level: 1, name: '<script>window.attacked' }).waitFor()
  await editorOf(tab).getByText('<img src=x').waitFor()
  await typeAtStart(tab, ' ')
  await save(tab)
  await tab.getByRole('link', { name: 'History' }).click()
  await tab.getByRole('button', { name: 'Changes in version 3' }).click()
  await tab.getByRole('dialog').getByRole('textbox', { name: 'Version 3' }).waitFor()
  await tab.getByRole('button', { name: 'Close' }).click()
  await tab.getByRole('button', { name: 'Delete the page' }).click()
  await tab.getByRole('dialog').getByText('<script>window.attacked').waitFor()
  await tab.getByRole('button', { name: 'Cancel' }).click()
  t.equal(await tab.evaluate('window.attacked'), undefined)
  t.equal(await tab.locator('main :is(img[src], script, svg:not(.fields__arrow), style)').count(), 0)
})

t.test('characters that hide or reorder others are shown by their numbers', async (t) => {
  const page = await createExactPage('["\u202eevil\u202c", "a\u200bb", "\u2028", "x\u00a0y"]\r ')
  await showPage(tab, page)
  for (const shown of ['U+202E', 'U+202C', 'U+200B', 'U+2028', '°', '␍']) {
    t.equal(await editorOf(tab).getByText(shown, { exact: true }).count(), 1, shown)
  }
})

t.test('Windows line ends are kept, can be edited, and are converted on request', async (t) => {
  const page = await createExactPage('{\r\n  "a": 1,\r\n\r\n  "b": 2\r\n}\r\n')
  await showPage(tab, page)
  await tab.getByText('Its lines end as on Windows').waitFor()
  await checkScreen(t, tab, 'Windows line ends')
  t.equal(await editorOf(tab).getByText('␍').count(), 0)
  await typeAtStart(tab, '')
  const press = async (...keys: string[]) => {
    for (const key of keys) await tab.keyboard.press(key)
  }
  // At the end of each line, which keys reach in several ways.
  await press('End', '1', 'Backspace', 'ArrowDown', 'End', 'ArrowLeft', '1', 'ArrowRight', 'ArrowDown', '1')
  await press('Backspace', 'ArrowRight', 'End', 'Shift+ArrowLeft', '3', 'Control+End', 'ArrowLeft')
  await press('Backspace', '}', 'ArrowRight', ' ')
  await save(tab)
  t.equal((await readDocument(page.id)).text, '{\r\n  "a": 11,\r\n\r\n  "b": 3\r\n}\r\n ')
  await typeAtStart(tab, '')
  await press('End', 'Delete')
  await save(tab)
  t.equal((await readDocument(page.id)).text, '{  "a": 11,\r\n\r\n  "b": 3\r\n}\r\n ')
  await tab.getByRole('button', { name: 'Convert line ends' }).click()
  await tab.getByText('Its lines end as on Windows').waitFor({ state: 'detached' })
  await save(tab)
  t.equal((await readDocument(page.id)).text, '{  "a": 11,\n\n  "b": 3\n}\n ')
  await press('Control+z')
  await save(tab)
  t.equal((await readDocument(page.id)).text, '{  "a": 11,\r\n\r\n  "b": 3\r\n}\r\n ')
})

t.test('a name that an object has twice gets a warning, and can be saved', async (t) => {
  const page = await createExactPage('{\n  "price": 1,\n  "list": [],\n  "price": 2\n}')
  await showPage(tab, page)
  const warning = tab.getByRole('button', { name: 'Line 4, column 3: This name is in line 2, too.' })
  await warning.click()
  await checkScreen(t, tab, 'a warning')
  for (let count = 0; count < 3; count++) await tab.keyboard.press('ArrowRight')
  await tab.keyboard.type('x')
  await warning.waitFor({ state: 'detached' })
  await tab.keyboard.press('Backspace')
  await warning.waitFor()
  await typeAtStart(tab, ' ')
  await save(tab)
  t.equal((await readDocument(page.id)).text, ' {\n  "price": 1,\n  "list": [],\n  "price": 2\n}')
})
