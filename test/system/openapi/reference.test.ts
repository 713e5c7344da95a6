import t from 'tap'
import { buildTestApp, createPage, listen, signUp } from '../../helpers/app.ts'
import { startBrowser } from '../../helpers/browser.ts'
import { provide } from '../../shared/programs.ts'

// Tests the reference page (/docs) in a real browser.

const browser = await startBrowser(t, provide('chromium'))
const app = await buildTestApp(t)
const url = await listen(app)

const page = await browser.newPage({ viewport: { width: 1300, height: 900 } })
/** Errors on the page, and its requests to other hosts. */
const faults: string[] = []
page.on('request', (request) => {
  if (!request.url().startsWith(`${url}/`) && !request.url().startsWith('data:')) {
    faults.push(`asks ${request.url()}`)
  }
})
page.on('response', (response) => {
  if (response.status() >= 400) faults.push(`${response.status()} of ${response.url()}`)
})
page.on('console', (message) => {
  if (['error', 'warning'].includes(message.type())) faults.push(message.text())
})
page.on('pageerror', (error) => faults.push(error.message))
page.setDefaultTimeout(0) // the runner limits the time
await page.goto(`${url}/docs`)
await page.waitForSelector('.opblock')

t.test('the reference page lists every operation and sends requests only to its own host', async (t) => {
  const described = Object
    .values((await app.inject('/openapi.json')).json<
      { paths: Record<string, Record<string, { operationId: string }>> }
    >().paths)
    .flatMap((item) => Object.values(item).map(({ operationId }) => operationId))
  const shown = await page.locator('.opblock-summary-operation-id').allInnerTexts()
  t.same(shown.map((name) => name.replaceAll('\u200B', '').trim()).sort(), described.sort())
  t.equal(await page.title(), 'Landfall')
  // An opened operation shows its parameters, bodies and answers.
  for (const id of ['createLandingPage', 'createAsset', 'readFile']) {
    await page.locator(`[id$="-${id}"] .opblock-summary-control`).click()
    await page.locator(`[id$="-${id}"] .responses-table .response`).first().waitFor()
  }
  t.match(await page.locator('[id$="-createAsset"]').innerText(), /asset\[file\][\s\S]*507/)
  t.same(faults, [])
})

t.test('the service answers a request that is tried on the reference page', async (t) => {
  const { public_id: publicId } = await createPage(
    app,
    await signUp(app),
    '{"greeting":"hello from the page"}'
  )
  const operation = page.locator('[id$="-readDocument"]')
  await operation.locator('.opblock-summary-control').click()
  await operation.locator('[data-param-name="public_id"] input').fill(publicId)
  await operation.locator('.execute').click()
  const answer = operation.locator('.live-responses-table')
  await answer.locator('.response-col_status').nth(1).waitFor()
  const text = await answer.innerText()
  t.match(text, /200[\s\S]*hello from the page/)
  t.match(text, /ratelimit: "public";r=29;t=\d+/)
  t.same(faults, [])
})

t.test('the reference page fits a narrow screen', async (t) => {
  await page.setViewportSize({ width: 400, height: 800 })
  t.ok(
    await page.evaluate('document.documentElement.scrollWidth <= innerWidth'),
    'the page needs no horizontal scrolling'
  )
  t.same(faults, [])
})

t.test('the Content-Security-Policy of the reference page allows only resources of the service', async (t) => {
  const { headers } = await app.inject('/docs')
  const policy = String(headers['content-security-policy'])
  t.match(policy, /^default-src 'none'; script-src 'self'; /)
  t.notMatch(policy, /unsafe|https?:|\*/)
})
