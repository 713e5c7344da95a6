import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import sharp from 'sharp'
import t from 'tap'
import { createLandfallClient } from '../../../packages/client/src/index.ts'
import { PASSWORD, startServiceOnPostgres, testSettings } from '../../helpers/app.ts'
import { startBrowser } from '../../helpers/browser.ts'
import { newProfile, openConsole, signIn } from '../../helpers/console.ts'
import { provide } from '../../shared/programs.ts'
import { query } from '../../helpers/servers.ts'
import { PROJECT, temporaryFolder } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'

// The pictures in README.md. `npm run screenshots` writes them to docs/images/; a test run only shows that it
// would.

const folder = process.env.SCREENSHOTS === 'write' ? join(PROJECT, 'docs/images') : temporaryFolder(t)
const EMAIL = 'ada@example.com'
const { DATABASE_URL: database = '' } = await testSettings(t)
const { url } = await startServiceOnPostgres(t, { DATABASE_URL: database })
const browser = await startBrowser(t, provide('chromium'))

const LABELS = [
  'Opening hours',
  'Newsletter',
  'Jobs',
  'Price list',
  'Spring collection',
  'Imprint',
  'Summer sale'
]
/** Reads in the busiest hour of each page. */
const BUSIEST = [40, 4, 11, 130, 75, 2, 420]

const client = createLandfallClient({ baseUrl: url })
await client.auth.signUp({ email: EMAIL, password: PASSWORD })
const uploadPicture = async (filename: string, sky: string, land: string) =>
  await client.assets.upload(new Blob([await landscape(sky, land)]), { filename })
const picture = await uploadPicture('beach.jpg', '#f7b267', '#2a6f97')
await uploadPicture('lake.jpg', '#cde7f0', '#3d7a5a')
await uploadPicture('dunes.jpg', '#ffe0b5', '#b5702f')
await uploadPicture('night.jpg', '#22304f', '#0b1424')
await uploadPicture('meadow.jpg', '#dff3ff', '#6a994e')
await client.assets.upload(new Blob(['%PDF-1.7\n'], { type: 'application/pdf' }), {
  filename: 'size-chart.pdf'
})

for (const [index, title] of LABELS.entries()) {
  const { id } = await client.landingPages.create({
    title,
    headline: 'Everything for the beach, up to 40 % off',
    picture: picture.url,
    valid_until: '2026-08-31',
    items: [{ name: 'Tent', price: 129.5 }, { name: 'Lamp', price: 19.9 }]
  })
  const document = await client.landingPages.getDocument(id)
  await client.landingPages.putDocument(id, JSON.parse(document.text.replace('19.9', '17.5')) as object)
  // What readers of the last day would have left.
  await query(
    database,
    `INSERT INTO landing_page_reads_hourly (page_id, at, reads, not_modified)
      SELECT '${id}', date_trunc('hour', now()) - n * interval '1 hour',
        round(${BUSIEST[index]} * (0.55 + 0.45 * cos((n + ${index}) / 3.8))), 0
      FROM generate_series(0, 23) n`
  )
}

const profile = await newProfile(t, browser, { viewport: { width: 1120, height: 640 }, colorScheme: 'light' })
const page = await openConsole(profile, url)
await signIn(page, EMAIL)

/** Waits until pictures are shown. */
const untilShown = async (count: number) =>
  await until(async () => {
    const widths = await page.locator('img.thumbnail').evaluateAll((images) =>
      (images as unknown as { naturalWidth: number }[]).map(({ naturalWidth }) => naturalWidth)
    )
    return widths.length === count && widths.every((width) => width > 0)
  }, `${count} pictures`)

t.test('the list of pages, a page as fields, and the assets', async () => {
  await page.getByRole('link', { name: 'Summer sale' }).waitFor()
  await take(page, 'pages')
  await page.getByRole('link', { name: 'Summer sale' }).click()
  await page.getByText('beach.jpg').waitFor()
  await untilShown(1)
  await take(page, 'page')
  await page.getByRole('link', { name: 'Assets', exact: true }).click()
  await page.getByText('beach.jpg').waitFor()
  await untilShown(5)
  await take(page, 'assets')
})

/** Returns a JPEG of a sky, a sun and some hills. */
async function landscape (sky: string, land: string): Promise<Buffer> {
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="1200" height="800">
    <rect width="1200" height="800" fill="${sky}"/>
    <circle cx="860" cy="260" r="110" fill="#fff" fill-opacity=".8"/>
    <path d="M0 560 Q 300 380 620 540 T 1200 480 V 800 H 0 Z" fill="${land}" fill-opacity=".7"/>
    <path d="M0 660 Q 400 520 760 650 T 1200 610 V 800 H 0 Z" fill="${land}"/></svg>`
  return await sharp(Buffer.from(svg)).jpeg().toBuffer()
}

/** Saves what the window shows, in few colours, because the repository keeps each version of the file. */
async function take (page: Page, name: string): Promise<void> {
  await page.waitForTimeout(500) // fonts, thumbnails
  const png = await sharp(await page.screenshot()).png({ palette: true, colours: 128 }).toBuffer()
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, `${name}.png`), png)
}
