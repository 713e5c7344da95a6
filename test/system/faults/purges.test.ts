import t from 'tap'
import { testSettings } from '../../helpers/app.ts'
import { startCdn } from '../../helpers/cdn.ts'
import { Owner } from '../../helpers/client.ts'
import { startService } from '../../helpers/service.ts'

// Purges of a CDN by a process whose clock is wrong.

const INTERVAL_MS = 5_000

t.jobs = 2

for (const [name, shift] of [['ahead', 3_600_000], ['behind', -3_600_000]] as const) {
  t.test(`a process whose clock is an hour ${name} makes purges in time, and not early`, async (t) => {
    const cdn = await startCdn(t, (_request, count) => ({ status: count === 1 ? 503 : 200 }))
    const { url } = await startService(t, {
      ...await testSettings(t),
      PUBLIC_CACHE_CONTROL: 'public, max-age=0, s-maxage=3600',
      CDN_PURGE: 'http',
      CDN_PURGE_URL: cdn.url,
      CDN_PURGE_TOKEN: 'operators-token',
      NODE_OPTIONS: `--import=${new URL('shifted-clock.js', import.meta.url).href}`,
      TEST_CLOCK_MS: String(shift)
    })
    const owner = await Owner.signUp(url)
    const { public_id: publicId } = await owner.createPage(url, '{}')
    const second = await cdn.purge(publicId, 2)
    const [refused, first] = cdn.requests
    t.ok(first!.at - refused!.at >= INTERVAL_MS, 'tried again')
    t.ok(second.at - first!.at >= INTERVAL_MS, 'purged once more')
  })
}
