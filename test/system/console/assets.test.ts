import { randomBytes } from 'node:crypto'
import type { FileChooser, Locator, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { startServiceOnPostgres, testSettings } from '../../helpers/app.ts'
import { PDF, PNG } from '../../helpers/assets.ts'
import { startBrowser } from '../../helpers/browser.ts'
import { Owner } from '../../helpers/client.ts'
import { checkScreen, dropFiles, signIn, startOwner, testFile, type TestFile } from '../../helpers/console.ts'
import { asJpeg, card } from '../../shared/pictures.ts'
import { provide } from '../../shared/programs.ts'
import { query } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'

// Files: uploading, looking at them, and deleting them.

const MAX_UPLOAD_BYTES = 3_000_000
const { DATABASE_URL: database = '' } = await testSettings(t)
const { url } = await startServiceOnPostgres(t, {
  DATABASE_URL: database,
  MAX_UPLOAD_BYTES: String(MAX_UPLOAD_BYTES)
})
const browser = await startBrowser(t, provide('chromium'))

/** Opens the assets of a new account. */
async function openAssets (t: Test): Promise<{ page: Page, owner: Owner }> {
  const { tab, owner } = await startOwner(t, browser, url)
  await showAssets(tab)
  return { page: tab, owner }
}

async function showAssets (page: Page): Promise<void> {
  await page.getByRole('link', { name: 'Assets', exact: true }).click()
  await page.getByRole('heading', { name: 'Assets', level: 1 }).waitFor()
}

const photo = async () => testFile('photo.jpg', await asJpeg(card({ width: 1600, height: 1200 })))
const pdf = testFile('terms.pdf', PDF)
const fileOf = (name: string, size: number) => testFile(name, randomBytes(size))

async function openChooser (page: Page): Promise<FileChooser> {
  const [chooser] = await Promise.all([
    page.waitForEvent('filechooser'),
    page.getByRole('button', { name: 'Upload files' }).click()
  ])
  return chooser
}

const choose = async (page: Page, files: TestFile[]) => await (await openChooser(page)).setFiles(files)

/** Whether the browser would ask before the tab is closed. */
const isLeavingPrevented = async (page: Page) =>
  await page.evaluate<boolean>("!dispatchEvent(new Event('beforeunload', { cancelable: true }))")

const tile = (page: Page, name: string) => page.getByRole('link', { name })
const uploads = (page: Page) => page.getByRole('region', { name: 'Uploads' })

/** Waits until a picture has been loaded. Returns the URL that the browser has chosen. */
async function loadedPicture (picture: Locator): Promise<string> {
  for (;;) {
    const { width, source } = await picture.evaluate((
      image: { naturalWidth: number, currentSrc: string }
    ) => ({ width: image.naturalWidth, source: image.currentSrc }))
    if (width > 0) return source
    await picture.page().waitForTimeout(50)
  }
}

/** Lets a tab send only so many bytes a second. Returns a function that ends this. */
async function slowDown (page: Page, bytesPerSecond: number): Promise<() => Promise<void>> {
  const session = await page.context().newCDPSession(page)
  await session.send('Network.enable')
  const limit = async (uploadThroughput: number) => {
    await session.send('Network.emulateNetworkConditions', {
      offline: false,
      latency: 0,
      downloadThroughput: -1,
      uploadThroughput
    })
  }
  await limit(bytesPerSecond)
  return async () => await limit(-1)
}

t.test('a file that is too large is refused before it is sent, and the others are uploaded', async (t) => {
  const { page } = await openAssets(t)
  let sent = 0
  page.on('request', (request) => {
    if (request.method() === 'POST' && request.url() === `${url}/assets`) sent++
  })
  await page.getByRole('heading', { name: 'Upload your first file' }).waitFor()
  await checkScreen(t, page, 'no assets')
  await choose(page, [await photo(), fileOf('big.bin', MAX_UPLOAD_BYTES + 1), pdf])
  await uploads(page).getByText('The file has 2.9 MB, but it can have at most 2.9 MB.').waitFor()
  await tile(page, 'photo.jpg').waitFor()
  await tile(page, 'terms.pdf').waitFor()
  await page.getByRole('status').getByText('2 files are uploaded.').waitFor()
  t.equal(sent, 2)
  t.match(await tile(page, 'terms.pdf').innerText(), /PDF/)
  t.match(await tile(page, 'photo.jpg').innerText(), /1600 × 1200, \d/)
  t.match(await loadedPicture(tile(page, 'photo.jpg').locator('img')), /\/w(320|640)\.webp$/)
  await checkScreen(t, page, 'assets with a failed upload')
  await page.getByRole('button', { name: 'Dismiss big.bin' }).click()
  await uploads(page).waitFor({ state: 'detached' })
  await page.reload()
  await tile(page, 'photo.jpg').waitFor()
  t.equal(await page.getByRole('main').getByRole('listitem').count(), 2)
})

t.test('two files are sent at a time, with progress, and each can be cancelled', async (t) => {
  const { page } = await openAssets(t)
  const speedUp = await slowDown(page, 50_000)
  await choose(page, ['a', 'b', 'c', 'd'].map((name) => fileOf(`${name}.bin`, 2_900_000)))
  await uploads(page).getByText('Waiting').nth(1).waitFor()
  t.equal(await uploads(page).getByText('Waiting').count(), 2)
  const progress = page.getByRole('progressbar', { name: 'Upload of a.bin' })
  for (let value = 0; value === 0;) value = Number(await progress.getAttribute('value'))
  await checkScreen(t, page, 'uploads')
  t.ok(await isLeavingPrevented(page))
  await page.getByRole('button', { name: 'Cancel a.bin' }).click()
  await page.getByRole('status').getByText('Cancelled: a.bin').waitFor()
  await progress.waitFor({ state: 'detached' })
  await uploads(page).getByText('Waiting').nth(1).waitFor({ state: 'detached' })
  for (const name of ['d', 'c']) await page.getByRole('button', { name: `Cancel ${name}.bin` }).click()
  // It goes on while another screen is shown, which says so.
  await page.getByRole('link', { name: 'Pages' }).click()
  const status = page.getByRole('link', { name: /^Uploading 1 file, \d+ %$/ })
  await status.waitFor()
  await checkScreen(t, page, 'pages with an upload')
  t.equal(await status.getAttribute('href'), '#/assets')
  await speedUp()
  await page.getByRole('status').getByText('Uploaded: b.bin').waitFor()
  await status.waitFor({ state: 'detached' })
  await showAssets(page)
  await tile(page, 'b.bin').waitFor()
  t.equal(await page.getByRole('main').getByRole('listitem').count(), 1)
  t.notOk(await isLeavingPrevented(page))
})

t.test('signing out ends the uploads', async (t) => {
  const { page, owner: { email } } = await openAssets(t)
  await slowDown(page, 100_000)
  await choose(page, [fileOf('a.bin', 2_900_000)])
  await page.getByRole('progressbar').waitFor()
  const [request] = await Promise.all([
    page.waitForEvent('requestfailed', (failed) => failed.url() === `${url}/assets`),
    page.getByRole('button', { name: 'Sign out' }).click()
  ])
  t.equal(request.failure()?.errorText, 'net::ERR_ABORTED')
  await signIn(page, email)
  await showAssets(page)
  await page.getByRole('heading', { name: 'Upload your first file' }).waitFor()
  t.equal(await uploads(page).count(), 0)
})

t.test('the uploads of one account are not shown to the next', async (t) => {
  const { page, owner } = await openAssets(t)
  const isUpload = (target: URL) => target.pathname === '/assets'
  await page.route(isUpload, async (route) => await route.abort())
  await choose(page, [pdf])
  const again = page.getByRole('button', { name: 'Try terms.pdf again' })
  await again.waitFor()
  await page.unroute(isUpload)
  await owner.call('DELETE', `${url}/auth/sessions`)
  await again.click()
  await page.getByRole('button', { name: 'Use another account' }).click()
  await signIn(page, (await Owner.signUp(url)).email)
  await page.getByRole('heading', { name: 'Assets', level: 1 }).waitFor()
  t.equal(await uploads(page).count(), 0)
})

t.test('files are loaded part by part, found by their name and type, and sorted', async (t) => {
  const { page, owner: { email } } = await openAssets(t)
  await query(
    database,
    `
    INSERT INTO assets (id, user_id, storage_key, filename, content_type, byte_size, checksum)
    SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, users.id, 'key-' || n, 'File ' ||
      n, CASE n WHEN 7 THEN 'font/woff2' ELSE 'text/plain' END, n % 100 + 1, repeat('0', 64)
    FROM users, generate_series(1, 130) n WHERE email = '${email}'`
  )
  await page.reload()
  const shown = page.getByRole('main').getByRole('listitem').getByRole('link')
  const status = async (text: string) =>
    await page.getByRole('status').getByText(text, { exact: true }).waitFor()
  const first = async (name: string) => await shown.first().getByText(name, { exact: true }).waitFor()
  await status('The first 60 assets')
  t.equal(await shown.count(), 60)
  await checkScreen(t, page, 'a part of the assets')
  await until(async () => {
    await page.keyboard.press('End')
    return await shown.count() === 130
  }, 'all parts are loaded')
  await status('130 assets')

  await page.getByRole('combobox', { name: 'Order' }).selectOption('Largest first')
  await first('File 99')
  await page.getByRole('combobox', { name: 'Order' }).selectOption('A to Z')
  await first('File 1')
  await page.getByRole('searchbox', { name: 'Search' }).fill('file 7')
  await status('11 found')
  await page.getByRole('combobox', { name: 'Type' }).selectOption('Fonts')
  await status('1 found')
  await first('File 7')
  t.match(page.url(), /#\/assets\?(?=.*q=file\+7)(?=.*sort=filename)(?=.*type=font)/)
  await shown.first().click()
  await page.getByRole('heading', { name: 'File 7', level: 1 }).waitFor()
  await page.goBack()
  await status('1 found')
})

t.test('files that are dropped are uploaded', async (t) => {
  const { page } = await openAssets(t)
  await dropFiles(page, [pdf, testFile('dot.png', PNG)])
  await tile(page, 'terms.pdf').waitFor()
  t.match(await loadedPicture(tile(page, 'dot.png').locator('img')), /\/uploads\/\w+\.png$/)
})

t.test('a failed upload says why, and can be tried again', async (t) => {
  const { page } = await openAssets(t)
  await page.route(`${url}/assets`, async (route) => {
    if (route.request().method() !== 'POST') return await route.continue()
    await route.fulfill({
      status: 507,
      contentType: 'application/json',
      body: '{"errors":["There is no storage space left for uploads"]}'
    })
  })
  await choose(page, [pdf])
  await uploads(page).getByText('There is no storage space left for uploads').waitFor()
  await page.unroute(`${url}/assets`)
  await page.getByRole('button', { name: 'Try terms.pdf again' }).click()
  await tile(page, 'terms.pdf').waitFor()
  await page.locator('h1:focus').waitFor()
})

t.test('a file that is uploaded beside a search is shown if it is found, otherwise it is said', async (t) => {
  const { page } = await openAssets(t)
  await choose(page, [pdf])
  await tile(page, 'terms.pdf').waitFor()
  await page.getByRole('searchbox', { name: 'Search' }).fill('terms')
  await page.getByRole('status').getByText('1 found').waitFor()
  await choose(page, [{ ...pdf, name: 'other terms.pdf' }])
  await tile(page, 'other terms.pdf').waitFor()
  await choose(page, [fileOf('photo.bin', 10)])
  await page.getByText('photo.bin is uploaded. It isn’t among the assets that you see.').waitFor()
  t.equal(await tile(page, 'photo.bin').count(), 0)
  await checkScreen(t, page, 'an upload beside a search')
  await page.getByRole('button', { name: 'Show the newest' }).click()
  await tile(page, 'photo.bin').waitFor()
  t.equal(await page.getByText('It isn’t among the assets').count(), 0)
})

t.test('an asset is shown with its URL, its copies and the pages that use it', async (t) => {
  const { page } = await openAssets(t)
  await choose(page, [await photo()])
  await tile(page, 'photo.jpg').click()
  await page.getByRole('heading', { name: 'photo.jpg', level: 1 }).waitFor()
  await page.getByText('No page uses this asset.').waitFor()
  const main = (await page.getByRole('main').innerText()).replaceAll(/\s+/g, ' ')
  t.match(main, /Type image\/jpeg Size [\d.]+ KB Dimensions 1600 × 1200 pixels Uploaded just now/)
  await page.getByText('Smaller copies').click()
  await page.getByText('320 × 240, image/webp').waitFor()
  await checkScreen(t, page, 'an asset')
  await page.getByRole('button', { name: 'Copy URL', exact: true }).click()
  await page.getByRole('status').getByText('Copied: URL').waitFor()
  const copied = await page.evaluate<string>('navigator.clipboard.readText()')
  t.match(copied, /^http:\/\/localhost:\d+\/uploads\/\w{22}\.jpg$/)
  t.equal((await fetch(copied)).status, 200)
})

/** Opens an asset of a new account. */
async function openAsset (t: Test): Promise<{ page: Page, owner: Owner, fileUrl: string }> {
  const { page, owner } = await openAssets(t)
  await choose(page, [pdf])
  await tile(page, 'terms.pdf').click()
  await page.getByText('No page uses this asset.').waitFor()
  return { page, owner, fileUrl: await page.getByRole('link', { name: /\/uploads\// }).innerText() }
}

const focused = (page: Page, name: string) => page.getByRole('button', { name }).and(page.locator(':focus'))

t.test('deleting an asset that a page uses is done after one question, which names the page', async (t) => {
  const { page, owner, fileUrl } = await openAsset(t)
  const { id } = await owner.createPage(url, JSON.stringify({ title: 'Our terms', file: fileUrl }))
  await page.reload()
  await page.getByRole('main').getByRole('link', { name: 'Our terms' }).waitFor()
  await page.getByRole('button', { name: 'Delete' }).click()
  const dialog = page.getByRole('dialog', { name: 'This asset is used' })
  await dialog.getByText('These pages use it').waitFor()
  await focused(page, 'Keep the asset').waitFor()
  t.equal(await dialog.getByRole('link', { name: 'Our terms' }).getAttribute('href'), `#/pages/${id}`)
  await checkScreen(t, page, 'deleting a file that is used')
  await page.keyboard.press('Enter')
  await dialog.waitFor({ state: 'detached' })
  t.equal((await fetch(fileUrl)).status, 200)
  await page.getByRole('button', { name: 'Delete' }).click()
  await dialog.getByRole('button', { name: 'Delete it anyway' }).click()
  await page.getByRole('heading', { name: 'Upload your first file' }).waitFor()
  t.equal((await fetch(fileUrl)).status, 404)
})

t.test('deleting an asset that a page has begun to use is refused, and asked about again', async (t) => {
  const { page, owner, fileUrl } = await openAsset(t)
  await owner.createPage(url, JSON.stringify({ file: fileUrl }))
  await page.getByRole('button', { name: 'Delete' }).click()
  await focused(page, 'Cancel').waitFor()
  await checkScreen(t, page, 'deleting a file')
  await page.getByRole('button', { name: 'Delete the asset' }).click()
  const dialog = page.getByRole('dialog', { name: 'This asset is used' })
  await dialog.getByRole('alert').getByText('It was not deleted, because these pages use it').waitFor()
  await focused(page, 'Keep the asset').waitFor()
  t.equal((await fetch(fileUrl)).status, 200)
  await checkScreen(t, page, 'a refused deletion')
  await dialog.getByRole('button', { name: 'Delete it anyway' }).click()
  await page.getByRole('heading', { name: 'Upload your first file' }).waitFor()
  t.equal((await fetch(fileUrl)).status, 404)
})
