import t from 'tap'
import { createLandfallClient } from '../../../packages/client/src/index.ts'
import { credentials } from '../../helpers/api-client.ts'
import { testSettings } from '../../helpers/app.ts'
import { startBrowser } from '../../helpers/browser.ts'
import { RECEIVABLE } from '../../helpers/receiver.ts'
import { claimRedis, freePort } from '../../helpers/servers.ts'
import { startService } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'
import { startBalancer, startVarnish } from '../../shared/balancer.ts'
import { provide } from '../../shared/programs.ts'
import { runInProject } from '../client/installed-client.ts'
import { Example } from './example.ts'

// A site made with Next.js that reads from two replicas behind Varnish and nginx.

const CHANGES = 3

const browser = await startBrowser(t, provide('chromium'))
const varnishPort = await freePort()
const settings: Record<string, string> = {
  ...await testSettings(t),
  ...RECEIVABLE,
  REDIS_URL: await claimRedis(t),
  RATE_LIMIT_PUBLIC: '1000000',
  TRUST_PROXY: '127.0.0.1',
  PUBLIC_CACHE_CONTROL: 'public, max-age=0, s-maxage=86400',
  CDN_PURGE: 'varnish',
  CDN_PURGE_URL: `http://127.0.0.1:${varnishPort}`
}
const replicas = [
  await startService(t, settings),
  await startService(t, { ...settings, MIGRATE_ON_START: 'false' })
] as const
const balancer = await startBalancer(t, {
  nginx: provide('nginx'),
  replicas: [replicas[0].url, replicas[1].url],
  uploads: settings.UPLOADS_DIR as string
})
provide('xkey')
const { url } = await startVarnish(t, provide('varnish'), new URL(balancer.url).port, varnishPort)
await until(async () => (await fetch(`${url}/health/ready`)).ok, 'Varnish is ready')

const port = await freePort()
const site = `http://localhost:${port}`
const landfall = createLandfallClient({ baseUrl: url })
await landfall.auth.signUp(credentials())
const webhook = await landfall.webhooks.create({ url: `http://127.0.0.1:${port}/api/landfall` })

const example = await Example.install(t, 'next')
await runInProject(example.folder, 'npm run build')
const start = async () =>
  await example.start(['npm', 'start'], {
    PORT: String(port),
    LANDFALL_URL: url,
    LANDFALL_WEBHOOK_SECRET: webhook.secret
  }, /Ready/)
const started = await start()

const { id, public_id: publicId } = await landfall.landingPages.create({ title: 'Version 1' })
const address = `${site}/${publicId}`
const visit = async () => (await browser.newContext()).newPage()

async function isDelivered (version: number): Promise<boolean> {
  for await (const delivery of landfall.webhooks.deliveries(webhook.id)) {
    if (delivery.version === version) return delivery.state === 'delivered'
  }
  return false
}

t.test('the site of examples/next shows each change after its webhook, and never an older version', async (t) => {
  t.match(example.commands, [
    `WEBHOOK_NETWORKS=${RECEIVABLE.WEBHOOK_NETWORKS} npm start\n`,
    /"url": "http:\/\/127\.0\.0\.1:3001\/api\/landfall"/,
    /^npm ci\nnpm run build\nLANDFALL_WEBHOOK_SECRET=\$\(.*\.secret'\) npm start\n$/
  ])
  const shown: number[] = []
  const look = async (): Promise<number> => {
    const html = await (await fetch(address)).text()
    shown.push(Number(/<h1>Version (\d+)<\/h1>/.exec(html)?.[1]))
    return shown.at(-1) as number
  }
  t.equal(await look(), 1)
  for (let version = 2; version <= 1 + CHANGES; version++) {
    await landfall.landingPages.update(id, { title: `Version ${version}` })
    await look()
    await until(async () => await isDelivered(version), `the message of version ${version}`)
    if (version === 1 + CHANGES) {
      await started.end('SIGTERM')
      await start()
    }
    t.equal(await look(), version, 'the first visitor after the message, and after a restart')
    await look()
  }
  t.same(shown, shown.toSorted((one, other) => one - other))
  const tab = await visit()
  await tab.goto(address)
  t.equal(await tab.getByRole('heading').innerText(), `Version ${1 + CHANGES}`)

  await landfall.landingPages.unpublish(id)
  await until(async () => (await fetch(address)).status === 404, 'the page is gone')
  t.equal((await fetch(`${site}/api/landfall`, { method: 'POST', body: '{}' })).status, 400, 'forged')
})

t.test('a preview link shows the draft to whoever has it, until they end it', async (t) => {
  await landfall.landingPages.putDraft(id, { title: 'Draft' })
  const { token } = await landfall.landingPages.createPreviewLink(id)
  const tab = await visit()
  const response = await tab.goto(`${site}/api/preview?page=${publicId}&token=lfp_none`)
  t.equal(response?.status(), 401)
  await tab.goto(`${site}/api/preview?page=${publicId}&token=${token}`)
  t.equal(tab.url(), address, 'the token is not in the address')
  await tab.getByRole('heading', { name: 'Draft' }).waitFor()
  t.equal((await fetch(address)).status, 404, 'others do not see it')
  await tab.getByRole('button', { name: 'End' }).click()
  await tab.getByRole('heading', { name: '404' }).waitFor()
})
