import type { BrowserContextOptions, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { startServiceOnPostgres, testSettings } from '../../helpers/app.ts'
import { startBrowser } from '../../helpers/browser.ts'
import { Owner } from '../../helpers/client.ts'
import { checkScreen, dropFiles, newProfile, signIn, signUpInConsole, testFile,
  type TestFile } from '../../helpers/console.ts'
import { provide } from '../../shared/programs.ts'
import { query } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'

// The list of pages: what it shows, searching, creating and deleting.

const { DATABASE_URL: database = '' } = await testSettings(t)
const { url } = await startServiceOnPostgres(t, { DATABASE_URL: database, MAX_DOCUMENT_BYTES: '50000' })
const browser = await startBrowser(t, provide('chromium'))

const sql = async (statement: string) => await query(database, statement)

/** Of the browser. */
interface TextArea {
  readonly value: string
  readonly selectionStart: number
  readonly selectionEnd: number
}

/** Signs up. Returns the tab, which shows that there are no pages, and the id of the user. */
async function signUp (
  t: Test,
  options: BrowserContextOptions = {}
): Promise<{ page: Page, userId: string }> {
  const { page, email } = await signUpInConsole(await newProfile(t, browser, options), url)
  const [user] = await sql(`SELECT id FROM users WHERE email = '${email}'`)
  return { page, userId: user?.id as string }
}

/** Creates pages in the database, without the service. `n` is the number of the page. */
async function insertPages (userId: string, count: number, document = '\'{"title":"Page \' || n || \'"}\'') {
  await sql(`WITH pages AS (
      INSERT INTO landing_pages
        (id, public_id, user_id, current_data, content_hash, used_assets_version, indexed_version)
      SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(${userId} * 10000 + n), 12, '0'))::uuid,
        translate(substr(encode(sha256(('${userId}-' || n)::bytea), 'base64'), 1, 22), '+/', 'ab'), ${userId},
          ${document}, repeat('x', 43), 1, 1
      FROM generate_series(1, ${count}) n
      RETURNING *, substring(current_data from '"title": ?"([^"]*)"') AS label)
    INSERT INTO landing_page_summaries (page_id, user_id, label, search_text, updated_at)
    SELECT id, user_id, label, search_form(coalesce(label, '')) || chr(10) || lower(public_id), updated_at
    FROM pages`)
}

const jsonFile = (content: string | Buffer) => testFile('page.json', content)
const rows = (page: Page) => page.getByRole('listitem')
const names = async (page: Page) => await rows(page).getByRole('link').allInnerTexts()
const searchField = (page: Page) => page.getByRole('searchbox', { name: 'Search' })
const waitForStatus = async (page: Page, text: string) =>
  await page.getByRole('status').getByText(text, { exact: true }).waitFor()

/** Creates an account with pages, and shows them. Returns the queries of the requests for the list. */
async function showPages (t: Test, count: number) {
  const { page, userId } = await signUp(t)
  await insertPages(userId, count)
  const queries: string[] = []
  page.on('request', (request) => {
    const { pathname, searchParams } = new URL(request.url())
    if (pathname !== '/manage/landing_page_summaries') return
    searchParams.delete('limit')
    queries.push(String(searchParams))
  })
  await page.reload()
  await rows(page).first().waitFor()
  return { page, userId, queries }
}
const documentsOf = async (userId: string) =>
  (await sql(`SELECT current_data FROM landing_pages
    WHERE user_id = ${userId} AND deleted_at IS NULL ORDER BY id`))
    .map(({ current_data: document }) => document)

/** Waits until the screen of a page is shown. */
const waitForPage = async (page: Page) => await page.waitForURL(/#\/pages\/[0-9a-f-]{36}/)
const openList = async (page: Page) => {
  await page.getByRole('link', { name: 'Pages' }).click()
  await page.getByRole('heading', { name: 'Pages', level: 1 }).waitFor()
}

t.test('a person without pages is told what to do, and creates an empty page, and one with a title', async (t) => {
  const { page, userId } = await signUp(t)
  await page.getByRole('heading', { name: 'Create your first page' }).waitFor()
  await checkScreen(t, page, 'no pages')
  await page.getByRole('button', { name: 'New page' }).click()
  await page.getByRole('dialog', { name: 'New page' }).waitFor()
  await checkScreen(t, page, 'the dialog for a new page')
  await page.getByRole('button', { name: 'Create the page' }).click()
  await waitForPage(page)
  t.same(await documentsOf(userId), ['{}'])
  await openList(page)
  await page.getByRole('button', { name: 'New page' }).click()
  await page.getByLabel('Title').and(page.locator(':focus')).fill('Say "hello"')
  await page.getByRole('button', { name: 'Create the page' }).click()
  await page.getByRole('heading', { name: 'Say "hello"', level: 1 }).waitFor()
  t.same((await documentsOf(userId)).map((text) => JSON.parse(String(text))), [{}, { title: 'Say "hello"' }])
})

t.test('a page is created from pasted text, whose errors are said with their place', async (t) => {
  const { page, userId } = await signUp(t)
  await page.getByRole('button', { name: 'New page' }).click()
  const text = page.getByRole('textbox', { name: 'Document' })
  await text.focus()
  t.equal(
    await text.evaluate((area: TextArea) => area.value.slice(area.selectionStart, area.selectionEnd)),
    '{}'
  )
  const create = page.getByRole('button', { name: 'Create the page' })
  const says = async (pattern: RegExp) => await page.getByRole('alert').getByText(pattern).waitFor()
  await text.fill('{\n  "a": 1,\n}')
  await create.click()
  await says(/^Line 3, column 1: Remove the comma/)
  t.same(
    await text.evaluate((area: TextArea) => [area.selectionStart, area.selectionEnd]),
    [12, 12],
    'the cursor is at the error'
  )
  await checkScreen(t, page, 'the dialog with an error')
  await text.fill('"text"')
  await page.getByRole('alert').waitFor({ state: 'detached' }) // until the next attempt
  await create.click()
  await says(/^Line 1, column 1: A document starts with \{ or \[/)
  await text.fill(JSON.stringify(['x'.repeat(60_000)]))
  await create.click()
  await says(/^It has 58.6 KB, but a document can have at most 48.8 KB/)
  t.same(await documentsOf(userId), [])
  await text.fill('{"title": "Pasted", "price": 1.0}')
  await create.click()
  await waitForPage(page)
  t.same(await documentsOf(userId), ['{"title": "Pasted", "price": 1.0}'])
})

t.test('a page is created from a file that is dropped or chosen, byte for byte', async (t) => {
  const { page, userId } = await signUp(t)
  const exact = '{\r\n\t"n": [1e400, 12345678901234567890, -0, 1.0],\r\n"a": "\\ud83d", "a": "é"}'
  const create = async () => {
    await page.getByText('File: page.json').waitFor()
    await page.getByRole('button', { name: 'Create the page' }).click()
    await waitForPage(page)
  }
  await page.getByRole('heading', { name: 'Create your first page' }).waitFor()
  t.equal(await page.getByText('Trash').count(), 1)
  await dropFiles(page, [jsonFile(exact)])
  await page.getByText('File: page.json').waitFor()
  t.same(await documentsOf(userId), [], 'nothing is published without a question')
  await create()
  await openList(page)
  await page.getByRole('button', { name: 'New page' }).click()
  const [chooser] = await Promise.all([
    page.waitForEvent('filechooser'),
    page.getByRole('button', { name: 'Use a file instead' }).click()
  ])
  await chooser.setFiles(jsonFile(`\ufeff${exact}`))
  await create()
  t.same(await documentsOf(userId), [exact, exact])
})

t.test('a file that is no document is refused with the reason', async (t) => {
  const { page, userId } = await signUp(t)
  await page.getByRole('button', { name: 'New page' }).click()
  const cases: [RegExp, ...TestFile[]][] = [
    [/^The file is not text in UTF-8/, jsonFile(Buffer.from([0x7b, 0xff, 0x7d]))],
    [/^The file is in UTF-16/, jsonFile(Buffer.from('\ufeff{}', 'utf16le'))],
    [/^It has 58.6 KB/, jsonFile('x'.repeat(60_000))],
    [/^Line 2, column 1: /, jsonFile('{\n')],
    [/^Choose one file at a time/, jsonFile('{}'), jsonFile('[]')]
  ]
  for (const [message, ...files] of cases) {
    await dropFiles(page, files)
    await page.getByRole('alert').getByText(message).waitFor()
  }
  t.same(await documentsOf(userId), [])
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
})

t.test('what was typed for a new page is not discarded without a question', async (t) => {
  const { page, userId } = await signUp(t)
  await page.getByRole('button', { name: 'New page' }).click()
  const text = page.getByRole('textbox', { name: 'Document' })
  await text.fill('{"title": "Typed"}')
  const question = page.getByRole('dialog', { name: 'Discard your text?' })
  const attempts = [
    async () => await page.keyboard.press('Escape'),
    async () => await page.getByRole('button', { name: 'Cancel' }).click(),
    async () => await dropFiles(page, [jsonFile('{}')]),
    async () => await page.evaluate("location.hash = '#/assets'")
  ]
  for (const attempt of attempts) {
    await attempt()
    await question.waitFor()
    if (attempt === attempts[0]) await checkScreen(t, page, 'the question about a text')
    await question.getByRole('button', { name: 'Keep the text' }).click()
    await question.waitFor({ state: 'detached' })
  }
  t.equal(await text.inputValue(), '{"title": "Typed"}')
  await page.keyboard.press('Escape')
  await question.getByRole('button', { name: 'Discard the text' }).click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'New page' }).and(page.locator(':focus')).waitFor()
  t.same(await documentsOf(userId), [])
})

t.test('a row shows the name, the size, the version, the change and the reads of a page', async (t) => {
  const { page, userId } = await signUp(t)
  const documents = [`{"title":"${'\u202e'}<b>Café</b>"}`, '{"title":"\u200b\u2066"}', '[]']
  await insertPages(
    userId,
    3,
    `('{${documents.map((document) => JSON.stringify(document)).join(',')}}'::text[])[n]`
  )
  await sql(`UPDATE landing_pages SET version = 3, updated_at = now() - interval '3 hours'
    WHERE user_id = ${userId}`)
  await sql(`INSERT INTO landing_page_reads_hourly SELECT id, date_trunc('hour', now()), 1200, 34
    FROM landing_pages
    WHERE user_id = ${userId} AND current_data LIKE '%Café%'`)
  await page.reload()
  await rows(page).nth(2).waitFor()
  const ids = await sql(`SELECT id, public_id FROM landing_pages WHERE user_id = ${userId} ORDER BY id DESC`)
  t.same(
    await names(page),
    [ids[0]?.public_id, ids[1]?.public_id, '\u202e<b>Café</b>'],
    'the public id is the name of a page without a label that can be seen'
  )
  const row = rows(page).nth(2)
  const text = await row.innerText()
  for (const part of [/Changed 3 hours ago/, /1,234 reads in 24 hours/]) {
    t.match(text.replaceAll(/\s+/g, ' '), part)
  }
  await row.getByText('Details of').click()
  await row.getByText('Version 3, 27 bytes').waitFor()
  await row.getByText(ids[2]?.public_id as string).waitFor()
  t.match(await row.getByText('3 hours ago').getAttribute('title'), /\d{4}.*\d\d:\d\d/)
  t.match((await rows(page).nth(0).innerText()).replaceAll(/\s+/g, ' '), /0 reads/)
  await checkScreen(t, page, 'the list of pages')
  await row.getByRole('link').click()
  await page.waitForURL(`**/console/#/pages/${ids[2]?.id}`)
})

t.test('times and numbers are in English, as the page is, and times in the zone of the reader', async (t) => {
  const { page, userId } = await signUp(t, { locale: 'de-DE', timezoneId: 'Asia/Kolkata' })
  await insertPages(userId, 1)
  const updatedAt = "date_trunc('day', now(), 'UTC') - interval '1 day'"
  await sql(`UPDATE landing_pages SET updated_at = ${updatedAt} WHERE user_id = ${userId}`)
  await page.reload()
  const time = rows(page).getByRole('time')
  t.match(await time.innerText(), /^(yesterday|1 day ago)$/)
  t.match(await time.getAttribute('title'), / at 05:30:00 GMT\+5:30$/)
  await sql(`UPDATE landing_pages SET version = 12345 WHERE user_id = ${userId}`)
  await page.reload()
  await rows(page).getByText('Details of').click()
  await rows(page).getByText('Version 12,345').waitFor()
})

t.test('one part of the pages is loaded, then more as the person scrolls', async (t) => {
  const { page, queries } = await showPages(t, 250)
  await waitForStatus(page, 'The first 100 pages')
  t.equal(await rows(page).count(), 100)
  t.same((await names(page)).slice(0, 2), ['Page 250', 'Page 249'])
  t.same(queries, [''], 'one request')
  await until(async () => {
    await page.keyboard.press('End')
    return await rows(page).count() === 250
  }, 'all parts are loaded')
  await waitForStatus(page, '250 pages')
  t.equal(queries.length, 3)

  await page.getByRole('link', { name: 'Account' }).click()
  await openList(page)
  await waitForStatus(page, 'The first 100 pages')
  t.equal(await page.evaluate<number>('scrollY'), 0)
})

t.test('Back shows what was loaded at once, and then what has changed meanwhile', async (t) => {
  const { page, userId } = await showPages(t, 250)
  await until(async () => {
    await page.keyboard.press('End')
    return await rows(page).count() === 250
  }, 'all parts are loaded')
  const link = page.getByRole('link', { name: 'Page 30', exact: true })
  await link.scrollIntoViewIfNeeded()
  const top = await page.evaluate<number>('scrollY')
  await link.click()
  await waitForPage(page)
  await sql(`UPDATE landing_page_summaries SET label = 'Renamed'
    WHERE user_id = ${userId} AND label = 'Page 30'`)
  let goOn = () => {}
  const isReleased = new Promise<void>((resolve) => {
    goOn = resolve
  })
  await page.route('**/manage/landing_page_summaries*', async (route) => {
    await isReleased
    await route.continue()
  })
  await page.goBack()
  await link.waitFor()
  t.equal(await rows(page).count(), 250)
  t.equal(await page.evaluate<number>('scrollY'), top)
  goOn()
  await page.getByRole('link', { name: 'Renamed' }).waitFor()
  t.equal(await rows(page).count(), 250)
  t.equal(await page.evaluate<number>('scrollY'), top)
  await waitForStatus(page, '250 pages')
})

t.test('pages are found by a part of their name or by their public id, which the address keeps', async (t) => {
  const { page, userId, queries } = await showPages(t, 250)
  await searchField(page).fill(' PAGE 250 ')
  await waitForStatus(page, '1 found')
  t.same(await names(page), ['Page 250'])
  await searchField(page).fill('age 12')
  await waitForStatus(page, '11 found')
  t.match(page.url(), /#\/pages\?q=age\+12$/)
  await page.getByRole('link', { name: 'Page 125' }).click()
  await waitForPage(page)
  await page.goBack()
  await waitForStatus(page, '11 found')
  t.equal(await searchField(page).inputValue(), 'age 12')
  await page.reload()
  await waitForStatus(page, '11 found')

  const [first] =
    await sql(`SELECT public_id FROM landing_pages WHERE user_id = ${userId} ORDER BY id LIMIT 1`)
  await searchField(page).fill(first?.public_id as string)
  await waitForStatus(page, '1 found')
  t.same(await names(page), ['Page 1'])

  queries.length = 0
  await searchField(page).evaluate((field: { value: string, dispatchEvent(event: Event): boolean }) => {
    for (const text of ['', 'n', 'none', 'none of them']) {
      field.value = text
      field.dispatchEvent(new Event('input'))
    }
  })
  await page.getByText('No page is called “none of them”.').waitFor()
  t.same(queries, ['q=none+of+them'], 'only what was typed last is searched for')
  await waitForStatus(page, '0 found')
  await checkScreen(t, page, 'a search that finds nothing')
  await page.getByRole('button', { name: 'Show all pages' }).click()
  await waitForStatus(page, 'The first 100 pages')
  t.match(page.url(), /#\/pages$/)
})

t.test('pages are sorted by their change or their name', async (t) => {
  const { page, userId } = await showPages(t, 3)
  await sql(`UPDATE landing_page_summaries SET updated_at = now() + interval '1 hour'
    WHERE user_id = ${userId}
      AND label = 'Page 2'`)
  const order = page.getByRole('combobox', { name: 'Order' })
  for (
    const [label, value, expected] of [
      ['Last changed first', 'updated', 'Page 2'],
      ['A to Z', 'label', 'Page 1'],
      ['Newest first', undefined, 'Page 3']
    ]
  ) {
    await order.selectOption(label as string)
    await rows(page).first().getByRole('link', { name: expected as string }).waitFor()
    t.ok(page.url().endsWith(value === undefined ? '#/pages' : `?sort=${value}`), page.url())
  }
})

t.test('the search is cleared for the next account', async (t) => {
  const { page } = await showPages(t, 2)
  await searchField(page).fill('page 2')
  await waitForStatus(page, '1 found')
  const other = await Owner.signUp(url)
  await other.createPage(url, '{"title": "Of the other"}')
  await page.getByRole('link', { name: 'Account' }).click()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await signIn(page, other.email)
  for (const area of ['account', 'pages']) {
    await page.goBack()
    await page.waitForURL(`**/#/${area}*`)
  }
  await page.getByRole('link', { name: 'Of the other' }).waitFor()
  t.equal(await searchField(page).inputValue(), '')
  await page.waitForURL('**/#/pages')
})

t.test('a page is deleted after a question, by keyboard alone', async (t) => {
  const { page, userId } = await signUp(t)
  await insertPages(userId, 3)
  await page.reload()
  await rows(page).nth(2).waitFor()
  await page.getByRole('combobox').focus()
  await page.keyboard.press('Tab')
  t.equal(await page.locator(':focus').innerText(), 'Page 3')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  const dialog = page.getByRole('dialog', { name: 'Delete this page?' })
  await dialog.getByText('Page 3').waitFor()
  await dialog.getByText('“Not found”').waitFor()
  await checkScreen(t, page, 'the question before a deletion')
  await page.keyboard.press('Escape')
  await dialog.waitFor({ state: 'detached' })
  const button = page.getByRole('button', { name: 'Delete Page 3' }).and(page.locator(':focus'))
  await button.waitFor() // the focus is back
  await page.keyboard.press('Enter')
  await dialog.getByRole('button', { name: 'Cancel' }).and(page.locator(':focus')).waitFor()
  await page.keyboard.press('Enter')
  await dialog.waitFor({ state: 'detached' })
  await button.waitFor()
  t.same((await documentsOf(userId)).length, 3, 'two times Enter deletes nothing')
  await page.keyboard.press('Enter')
  await dialog.getByRole('button', { name: 'Delete the page' }).focus()
  await page.keyboard.press('Enter')
  await page.getByRole('status').getByText('Deleted: Page 3').waitFor()
  t.same(await names(page), ['Page 2', 'Page 1'])
  await page.locator('h1:focus').waitFor()
  t.same((await documentsOf(userId)).length, 2)
})

t.test('a deleted page is restored from the trash, or removed for good', async (t) => {
  const { page, userId } = await signUp(t)
  await insertPages(userId, 2)
  await page.reload()
  for (const name of ['Page 1', 'Page 2']) {
    await page.getByRole('button', { name: `Delete ${name}` }).click()
    const dialog = page.getByRole('dialog', { name: 'Delete this page?' })
    await dialog.getByText('restore it for 30 days').waitFor()
    await dialog.getByRole('button', { name: 'Delete the page' }).click()
    await dialog.waitFor({ state: 'detached' })
  }
  await page.getByRole('link', { name: 'Trash' }).click()
  await page.getByRole('button', { name: 'Restore Page 2' }).waitFor()
  await checkScreen(t, page, 'the trash')
  await page.getByRole('button', { name: 'Remove Page 1 for good' }).click()
  const dialog = page.getByRole('dialog', { name: 'Remove this page for good?' })
  await dialog.getByRole('button', { name: 'Remove for good' }).click()
  await page.getByRole('status').getByText('Removed: Page 1').waitFor()
  await page.getByRole('button', { name: 'Restore Page 2' }).click()
  await waitForPage(page)
  await page.getByRole('heading', { name: 'Page 2', level: 1 }).waitFor()
  const rest = await sql(`SELECT deleted_at FROM landing_pages WHERE user_id = ${userId}`)
  t.same(rest, [{ deleted_at: null }])
})

t.test('while the service fails, the list says so and goes on afterwards', async (t) => {
  const { page } = await showPages(t, 150)
  let responses = 0
  await page.route('**/manage/landing_page_summaries*', async (route) => {
    if (++responses === 2) {
      await route.fulfill({
        status: 503,
        headers: { 'retry-after': '20' },
        json: { errors: ['The service is busy'] }
      })
    } else await route.continue()
  })
  await page.reload()
  await rows(page).nth(99).waitFor()
  await page.keyboard.press('End')
  await page.getByRole('alert').getByText('The service is busy').waitFor()
  t.equal(await rows(page).count(), 100)
  await page.getByRole('button', { name: 'Try again' }).click()
  await waitForStatus(page, '150 pages')
  await page.locator('h1:focus').waitFor()
  await page.getByRole('alert').waitFor({ state: 'detached' })
})
