import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { BrowserContextOptions, Locator, Page } from 'playwright-core'
import t from 'tap'
import { startServiceOnPostgres } from '../../helpers/app.ts'
import { startBrowser } from '../../helpers/browser.ts'
import { Owner } from '../../helpers/client.ts'
import { checkWithAxe, editorOf, newProfile, openConsole, showFields, showPage, signIn,
  typeAtStart } from '../../helpers/console.ts'
import { RECEIVABLE, startReceiver } from '../../helpers/receiver.ts'
import { asJpeg, card } from '../../shared/pictures.ts'
import { provide } from '../../shared/programs.ts'

// The screens as different people see them. With `SCREENSHOTS_FOLDER`, each is also a picture to look at.

const folder = process.env.SCREENSHOTS_FOLDER
if (folder !== undefined) mkdirSync(folder, { recursive: true })
const { url } = await startServiceOnPostgres(t, RECEIVABLE)
const browser = await startBrowser(t, provide('chromium'))
const owner = await Owner.signUp(url)
await owner.upload(url, await asJpeg(card({ width: 800, height: 600 })), 'beach.jpg')
const lake = await owner.upload(url, await asJpeg(card({ width: 700, height: 500 })), 'lake.jpg')
await owner.upload(url, Buffer.from('%PDF-1.7\n'), 'size-chart.pdf')
const page = await owner.createPage(url, '{\n  "title": "Summer sale",\n  "price": 10.50,\n  "open": true\n}')
await owner.createPage(url, '{"title": "Opening hours"}')
const shop = await owner.createPage(
  url,
  JSON.stringify({
    title: 'Shop',
    photo: (JSON.parse(lake.text) as { url: string }).url,
    alt: 'A lake',
    note: null,
    items: [{ name: 'Tent', price: 129.5, isNew: true }, { name: 'Lamp', price: 17.5, isNew: false }]
  })
)
const receiver = await startReceiver(t, (_message, count) => count === 1 ? 500 : 204)
await owner.call('POST', `${url}/webhooks`, { json: { url: receiver.url, name: 'Website build' } })
await owner.createPage(url, '{"title": "Jobs"}')
const documentUrl = `${url}/manage/landing_pages/${page.id}/document`
await owner.call('PUT', documentUrl, {
  text: '{\n  "title": "Winter sale",\n  "price": 9.90,\n  "new": [true, false]\n}'
})

const viewport = { width: 1120, height: 720 }
const APPEARANCES: readonly (readonly [string, BrowserContextOptions])[] = [
  ['phone', { viewport: { width: 360, height: 640 }, deviceScaleFactor: 2, hasTouch: true }],
  ['zoom', { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 }],
  ['forced', { forcedColors: 'active', colorScheme: 'dark', viewport }],
  // What can be checked of these is the same in forced colours, and for `checkScreen`.
  ...folder === undefined ? [] : [
    ['dark', { colorScheme: 'dark', viewport }],
    ['forced-light', { forcedColors: 'active', colorScheme: 'light', viewport }]
  ] as const
]

const showTab = async (tab: Page, name: string) =>
  await tab.getByRole('navigation', { name: 'This page' }).getByRole('link', { name }).click()

/** What is shown, by the name of the picture. Each begins where the one before has ended. */
const SCREENS: readonly (readonly [string, (tab: Page) => Promise<unknown>])[] = [
  ['pages', async (tab) => await tab.getByRole('link', { name: 'Opening hours' }).waitFor()],
  ['fields', async (tab) => {
    await showFields(tab, shop)
    await tab.getByText('lake.jpg').waitFor()
    await tab.getByRole('button', { name: 'Tent', exact: true }).click()
    await tab.getByLabel('Price').fill('9,90')
  }],
  ['picker', async (tab) => {
    await tab.getByRole('button', { name: 'Undo' }).click()
    await tab.getByRole('button', { name: 'Replace Photo' }).click()
    await tab.getByRole('dialog').getByText('beach.jpg').waitFor()
  }],
  ['picture', async (tab) => {
    await tab.getByRole('dialog').getByRole('button', { name: 'beach.jpg' }).click()
    await tab.getByText('Describe the new picture.').waitFor()
    await tab.getByRole('button', { name: 'Undo' }).scrollIntoViewIfNeeded()
  }],
  ['editor', async (tab) => {
    await tab.getByRole('button', { name: 'Undo' }).click()
    await showPage(tab, page)
    await typeAtStart(tab, '!')
    await tab.getByRole('button', { name: /^Line 1/ }).waitFor()
  }],
  ['not-saved', async (tab) => {
    await tab.keyboard.press('Control+s')
    await tab.getByRole('status').getByText('Not saved.').waitFor()
  }],
  ['conflict', async (tab) => {
    const { text } = await owner.call('GET', documentUrl)
    await owner.call('PUT', documentUrl, { text: '{\n  "title": "Theirs",\n  "price": 9.90\n}' })
    await editorOf(tab).focus()
    await tab.keyboard.press('Control+a')
    await tab.keyboard.insertText('{\n  "title": "Mine",\n  "price": 9.90\n}')
    await tab.keyboard.press('Control+s')
    await tab.getByRole('dialog').getByText('Theirs').first().waitFor()
    await owner.call('PUT', documentUrl, { text })
  }],
  ['history', async (tab) => {
    await tab.keyboard.press('Escape')
    await showTab(tab, 'History')
    await tab.getByText('Version 2', { exact: true }).waitFor()
  }],
  ['comparison', async (tab) => {
    await tab.getByRole('button', { name: 'Changes in version 2', exact: true }).click()
    await tab.getByRole('dialog').getByText('Winter sale').waitFor()
  }],
  ['changes', async (tab) => {
    await tab.getByRole('button', { name: 'Show the changes by field' }).click()
    await tab.getByRole('dialog').getByText('Changed').first().waitFor()
  }],
  ['visitors', async (tab) => {
    await tab.getByRole('button', { name: 'Close' }).click()
    await showTab(tab, 'Visitors')
    await tab.getByText('in the last 24 hours').first().waitFor()
  }],
  ['use', async (tab) => {
    await showTab(tab, 'Use')
    await tab.getByText('Public URL').waitFor()
  }],
  ['leave', async (tab) => {
    await tab.getByRole('link', { name: 'Assets', exact: true }).click()
    await tab.getByRole('button', { name: 'Leave without saving' }).waitFor()
  }],
  ['assets', async (tab) => {
    await tab.getByRole('button', { name: 'Leave without saving' }).click()
    await tab.getByText('beach.jpg').waitFor()
  }],
  ['asset', async (tab) => {
    await tab.getByText('beach.jpg').click()
    await tab.getByText('No page uses this asset.').waitFor()
  }],
  ['my-site', async (tab) => {
    await tab.getByRole('link', { name: 'Account' }).click()
    await tab.getByRole('link', { name: 'My site' }).click()
    await tab.getByLabel('Address of a page on your website').fill('www.example.com')
    await tab.getByRole('button', { name: 'Save' }).click()
    await tab.getByRole('alert').waitFor()
  }],
  ['sessions', async (tab) => {
    await tab.getByRole('link', { name: 'Sessions' }).click()
    await tab.getByText('this browser').waitFor()
  }],
  ['webhooks', async (tab) => {
    await tab.getByRole('link', { name: 'Webhooks' }).click()
    await tab.getByText('Last message').waitFor()
  }],
  ['webhook', async (tab) => {
    await tab.getByRole('link', { name: 'Website build' }).click()
    await tab.getByRole('button', { name: 'Send a test' }).click()
    await tab.getByText('Delivered').first().waitFor()
  }],
  ['webhook-form', async (tab) => {
    await tab.getByRole('button', { name: 'Edit' }).click()
    await tab.getByLabel('About').selectOption('Only some pages')
    await tab.getByRole('button', { name: 'Add Shop' }).click()
    await tab.getByRole('button', { name: 'Remove Shop' }).scrollIntoViewIfNeeded()
  }]
]

for (const [appearance, options] of APPEARANCES) {
  t.test(`all screens are shown: ${appearance}`, async (t) => {
    const tab = await openConsole(await newProfile(t, browser, options), url)
    await signIn(tab, owner.email)
    for (const [name, show] of SCREENS) {
      await show(tab)
      if (folder !== undefined) {
        await tab.waitForTimeout(300) // fonts, thumbnails
        await tab.screenshot({ path: join(folder, `${appearance}-${name}.png`) })
      }
      const [needed, available] = await tab.evaluate<
        [number, number]
      >('[document.documentElement.scrollWidth, document.documentElement.clientWidth]')
      t.ok(needed <= available, `${name} needs ${needed} pixels of ${available}`)
      // In forced colours, axe reads colours that Chromium doesn't paint, so it checks all but colours.
      if (appearance === 'forced') await checkWithAxe(t, tab, `${name}, forced colours`)
    }
  })
}

const styleOf = async (element: Locator, ...names: string[]): Promise<string[]> =>
  await element.evaluate(
    (node, names) => {
      const style = (globalThis as unknown as { getComputedStyle(of: unknown): Record<string, string> })
        .getComputedStyle(node)
      return names.map((name) => style[name] as string)
    },
    names
  )

t.test('in forced colours, the current tab and area and all differences can be told apart', async (t) => {
  const profile = await newProfile(t, browser, { forcedColors: 'active' })
  const tab = await openConsole(profile, url)
  await signIn(tab, owner.email)
  await showPage(tab, page)
  await editorOf(tab).waitFor()
  const tabs = tab.getByRole('navigation', { name: 'This page' }).getByRole('link')
  const [current, other] = [
    await styleOf(tabs.nth(0), 'borderBottomColor'),
    await styleOf(tabs.nth(1), 'borderBottomColor')
  ]
  t.notSame(current, other)
  const views = tab.getByRole('group', { name: 'Show as' }).getByRole('button')
  t.notSame(await styleOf(views.nth(0), 'backgroundColor'), await styleOf(views.nth(1), 'backgroundColor'))
  const areas = tab.getByRole('navigation', { name: 'Areas' }).getByRole('link')
  t.notSame(await styleOf(areas.nth(0), 'backgroundColor'), await styleOf(areas.nth(1), 'backgroundColor'))
  await showTab(tab, 'History')
  await tab.getByRole('button', { name: 'Changes in version 2', exact: true }).click()
  const dialog = tab.getByRole('dialog')
  const removed = dialog.locator('.cm-merge-a .cm-changedText').first()
  const added = dialog.locator('.cm-merge-b .cm-changedText').first()
  t.same(await styleOf(removed, 'textDecorationLine'), ['line-through'])
  t.same(await styleOf(added, 'textDecorationLine'), ['underline'])
  await tab.setViewportSize({ width: 360, height: 640 })
  t.same(await styleOf(dialog.locator('.cm-deletedText').first(), 'textDecorationLine'), ['line-through'])
  t.same(await styleOf(dialog.locator('.cm-changedText').first(), 'textDecorationLine'), ['underline'])
})
