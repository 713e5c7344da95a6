import { randomBytes } from 'node:crypto'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { testSettings } from '../../helpers/app.ts'
import { untilLimitIsShared } from '../../helpers/behind-proxy.ts'
import { call, Owner } from '../../helpers/client.ts'
import { landfall } from '../../helpers/cli.ts'
import { startRedisCluster } from '../../helpers/redis-cluster.ts'
import { freePort } from '../../helpers/servers.ts'
import { startService, temporaryFolder } from '../../helpers/service.ts'
import { until } from '../../helpers/until.ts'
import { createCertificate } from './certificate.ts'
import { provide } from '../../shared/programs.ts'

// The service and the command line on a Redis Cluster with TLS, a user and a password.

t.test('the service and the command line use a cluster with TLS, a user and a password', async (t) => {
  const folder = temporaryFolder(t)
  const [key, certificate] = [join(folder, 'privkey.pem'), join(folder, 'fullchain.pem')]
  createCertificate(provide('openssl'), folder, ['-addext', 'subjectAltName=IP:127.0.0.1'])
  // Redis runs under an account of its own.
  for (const [file, mode] of [[folder, 0o755], [key, 0o644]] as const) chmodSync(file, mode)

  const password = `p@ss,w/rd:${randomBytes(8).toString('hex')}`
  const ports: number[] = []
  await startRedisCluster(t, async () => {
    const port = await freePort()
    ports.push(port)
    return {
      'tls-port': port,
      'tls-cluster': 'yes',
      'tls-replication': 'yes',
      'tls-auth-clients': 'no',
      'tls-cert-file': certificate,
      'tls-key-file': key,
      'tls-ca-cert-file': certificate,
      user:
        `landfall on >${password} ~landfall:* &landfall:* +@all -@admin -@dangerous +info +cluster|slots ` +
        '+cluster|info'
    }
  })
  const nodes = ports.slice(0, 2).map((port) => `127.0.0.1:${port}`).join(',')
  const settings = {
    ...await testSettings(t),
    REDIS_URL: `rediss://landfall:${encodeURIComponent(password)}@${nodes}`,
    NODE_EXTRA_CA_CERTS: certificate,
    TRUST_PROXY: '127.0.0.0/8,::1'
  }
  const [one, two] = [await startService(t, settings), await startService(t, settings)]
  const redisOf = async (url: string) => (await call('GET', `${url}/health/ready`)).json().redis
  for (const { url } of [one, two]) {
    await until(async () => await redisOf(url) === 'ok', 'the cluster is used')
  }

  const owner = await Owner.signUp(one.url)
  const pages = await Promise
    .all([1, 2, 3, 4].map(async (n) => await owner.createPage(one.url, `{"n":${n}}`)))
  const read = async (url: string, { public_id: publicId }: typeof pages[number], address: string) =>
    (await call('GET', `${url}/landing_pages/${publicId}`, { headers: { 'x-forwarded-for': address } }))
      .status
  const address = await untilLimitIsShared([one.url, two.url], `/landing_pages/${pages[0]!.public_id}`)

  const usesOf = async () => {
    const { code, stdout } = await landfall(settings, ['limits', 'show', address, '--json'])
    t.equal(code, 0)
    return (JSON.parse(stdout) as { limits: { used: number }[] }).limits.map(({ used }) => used)
  }
  await call('POST', `${one.url}/auth/sign_up`, { headers: { 'x-forwarded-for': address }, json: {} })
  t.same(await usesOf(), [30, 0, 0, 1, 0, 0])
  t.match(await landfall(settings, ['limits', 'clear', address]), {
    code: 0,
    stdout: /^Cleared 2 counts of /
  })
  t.same(await usesOf(), [0, 0, 0, 0, 0, 0])

  for (const page of pages) {
    for (const { url } of [one, two]) t.equal(await read(url, page, '198.51.100.1'), 200)
    t.match(await landfall(settings, ['pages', 'take-down', page.public_id]), { code: 0 })
    for (const { url } of [one, two]) {
      await until(async () => await read(url, page, '198.51.100.2') === 404, 'the page is gone on both')
    }
  }
  const { stdout } = await landfall(settings, ['config'])
  t.match(stdout, /^REDIS_URL +\(hidden\)/m)
  t.notOk(stdout.includes(password) || stdout.includes(encodeURIComponent(password)))

  const mistyped = { ...settings, REDIS_URL: `rediss://landfall:wrong@${nodes}` }
  const wrong = await landfall(mistyped, ['limits', 'show', address])
  t.match(wrong, { code: 1, stderr: /Redis cannot be reached: WRONGPASS/ })
})
