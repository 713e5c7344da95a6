import { randomBytes } from 'node:crypto'
import { writeFileSync, chmodSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { testSettings } from '../../helpers/app.ts'
import { call, Owner } from '../../helpers/client.ts'
import { freePort, startRedisServer } from '../../helpers/servers.ts'
import { startService, temporaryFolder } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'
import { changedFile, startServer } from '../../shared/balancer.ts'
import { provide } from '../../shared/programs.ts'

// Runs deploy/nginx/cache.conf and purge.js in front of the service.

const nginx = provide('nginx')
const modules = [provide('njs'), provide('cachePurge')]
const TOKEN = randomBytes(20).toString('hex')

/** Starts nginx on `port` in front of the service. */
async function startCache (service: string, port: number): Promise<string> {
  const folder = temporaryFolder(t)
  chmodSync(folder, 0o755) // started as root, nginx runs its workers as another user
  const purgePort = String(await freePort())
  const script = join(folder, 'purge.js')
  writeFileSync(script, changedFile('nginx/purge.js', [['8081', purgePort]]))
  const config = changedFile('nginx/cache.conf', [
    ['listen 8080', `listen 127.0.0.1:${port}`],
    ['8081', purgePort],
    ['127.0.0.1:3000', service],
    ['/etc/nginx/purge.js', script],
    ['/var/cache/nginx-landfall', join(folder, 'cache')],
    ['!= "Bearer "', `!= "Bearer ${TOKEN}"`]
  ])
  const file = join(folder, 'nginx.conf')
  writeFileSync(
    file,
    `${modules.map((path) => `load_module ${path};`).join('\n')}
pid ${folder}/pid;
error_log stderr;
events {}
http {
  access_log off;
  ${
      ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) =>
        `${name}_temp_path ${folder}/${name};`
      ).join('\n')
    }
  ${config}
}
`
  )
  const { url } = await startServer(t, nginx, ['-p', folder, '-c', file, '-g', 'daemon off;'], port)
  return url
}

t.test('behind nginx as a cache, changes and deletions arrive by purges, and nothing older follows', async (t) => {
  const redis = await startRedisServer(t)
  const port = await freePort()
  const service = await startService(t, {
    ...await testSettings(t),
    REDIS_URL: redis.url,
    PUBLIC_CACHE_CONTROL: 'public, max-age=0, s-maxage=86400',
    CDN_PURGE: 'http',
    CDN_PURGE_URL: `http://127.0.0.1:${port}/cdn-purge`,
    CDN_PURGE_TOKEN: TOKEN,
    BASE_URL: `http://127.0.0.1:${port}`,
    TRUST_PROXY: '127.0.0.1'
  })
  const url = await startCache(new URL(service.url.replace('localhost', '127.0.0.1')).host, port)
  const owner = await Owner.signUp(url)
  const page = await owner.createPage(url, '{"v":1}')
  const path = `${url}/landing_pages/${page.public_id}`
  const read = async (encoding = 'identity') => {
    const { status, text, headers } = await call('GET', path, { headers: { 'accept-encoding': encoding } })
    t.equal(status, 200)
    t.same(['ratelimit', 'cache-status', 'cache-tag'].filter((name) => headers.has(name)), [])
    return { v: JSON.parse(text).v, id: headers.get('x-request-id') }
  }
  const asset = await owner.store(url, randomBytes(100))
  const file = url + asset.path
  t.equal((await call('GET', file)).status, 200)

  const refused = await call('POST', `${url}/cdn-purge`, {
    headers: { authorization: 'Bearer wrong' },
    json: { urls: [path] }
  })
  t.equal(refused.status, 403)

  for (const v of [2, 3]) {
    t.not((await read()).id, (await read('br, gzip')).id, 'each response has an id of its own')
    t.equal((await owner.update(url, page.id, `{"v":${v}}`)).status, 200)
    t.equal((await read()).v, v - 1, 'the page comes from the cache')
    await until(async () => {
      const { text } = await owner.call('GET', `${url}/manage/landing_pages/${page.id}/publication`)
      const { cdn } = JSON.parse(text) as { cdn: { state: string, version: number } }
      return cdn.state === 'purged' && cdn.version === v
    }, 'the purge')
    for (const encoding of ['identity', 'gzip', 'br']) t.equal((await read(encoding)).v, v)
  }

  await owner.call('DELETE', `${url}/assets/${asset.id}`)
  t.equal((await call('GET', file)).status, 200, 'the file comes from the cache')
  await until(async () => (await call('GET', file)).status === 404, 'the deleted file is gone')
})
