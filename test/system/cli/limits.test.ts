import { Redis } from 'ioredis'
import t from 'tap'
import { PASSWORD } from '../../helpers/app.ts'
import { call, Owner } from '../../helpers/client.ts'
import { landfall } from '../../helpers/cli.ts'
import { claimRedis, createMigratedDatabase } from '../../helpers/servers.ts'
import { startService, temporaryFolder } from '../../helpers/service.ts'

t.test('limits shows and clears what Redis counts for a client address', async (t) => {
  const env = {
    DATABASE_URL: await createMigratedDatabase(t),
    REDIS_URL: await claimRedis(t),
    JWT_SECRET: 'x'.repeat(32),
    UPLOADS_DIR: temporaryFolder(t),
    TRUST_PROXY: '127.0.0.1,::1',
    ALLOWED_HOSTS: 'www.example.com',
    // Too low for a first share, so that Redis counts each read.
    RATE_LIMIT_PUBLIC: '5',
    RATE_LIMIT_ALLOWED_HOSTS: '5',
    SIGN_IN_FAILURES_PER_ADDRESS: '1'
  }
  const { url } = await startService(t, env)
  const usesOf = async (address: string) => {
    const { code, stdout } = await landfall(env, ['limits', 'show', address, '--json'])
    t.equal(code, 0)
    const shown = JSON.parse(stdout) as { address: string, limits: { limit: string, used: number }[] }
    return {
      address: shown.address,
      ...Object.fromEntries(shown.limits.map(({ limit, used }) => [limit, used]))
    }
  }
  const from = (address: string, headers = {}) => ({ headers: { 'x-forwarded-for': address, ...headers } })
  const first = '2001:db8:1:2::1'
  const signIn = async (password: string) =>
    (await call('POST', `${url}/auth/sign_in`, {
      ...from(first),
      json: { user: { email: owner.email, password } }
    })).status

  const owner = await Owner.signUp(url)
  await call('POST', `${url}/auth/sign_up`, { ...from(first), json: {} })
  await call('POST', `${url}/auth/refresh`, { ...from(first), json: {} })
  t.equal(await signIn('wrong password'), 401)
  t.equal(await signIn(PASSWORD), 429)
  await call('GET', `${url}/landing_pages/${'x'.repeat(22)}`, from(first))
  await call(
    'GET',
    `${url}/landing_pages/${'x'.repeat(22)}`,
    from(first, { origin: 'https://www.example.com' })
  )

  t.same(await usesOf('2001:db8:1:2:ffff::9'), {
    address: '2001:db8:1:2::/64',
    'public reads': 1,
    'public reads by allowed hosts': 1,
    'failed sign-ins': 1,
    'sign-ups': 1,
    refreshes: 1,
    'password resets': 0
  })
  t.match(await landfall(env, ['limits', 'show', first]), {
    code: 0,
    stdout:
      /^What Redis counts for 2001:db8:1:2::\/64\. .*\n\nLIMIT +USED +OF +ENDS IN\npublic reads +1 +5 +\d+ s\n/,
    stderr: ''
  })
  const audit: object[] = []
  t.same(await landfall(env, ['limits', 'clear', first], { audit }), {
    code: 0,
    stdout: 'Cleared 5 counts of 2001:db8:1:2::/64\n',
    stderr: ''
  })
  t.match(audit, [{ command: 'limits clear', cleared: '2001:db8:1:2::/64' }])
  t.match(await usesOf(first), { 'public reads': 0, 'failed sign-ins': 0, refreshes: 0 })
  t.equal(await signIn(PASSWORD), 200)

  t.equal(await signIn('wrong password'), 401)
  for (let n = 0; n < 4; n++) await call('GET', `${url}/landing_pages/${'x'.repeat(22)}`, from(first))
  const redis = new Redis(env.REDIS_URL)
  await redis.flushdb() // as if Redis had evicted everything
  redis.disconnect()
  t.match(await landfall(env, ['limits', 'clear', first]), { code: 0, stdout: /^Cleared 0 counts of / })
  t.equal(await signIn(PASSWORD), 200, 'the process does not put back what was cleared')
  await call('GET', `${url}/landing_pages/${'x'.repeat(22)}`, from(first))
  t.match(await usesOf(first), { 'public reads': 2, 'failed sign-ins': 0 }, 'that read, and one leased ahead')

  t.match(await landfall(env, ['limits', 'show', 'example.com']), {
    code: 1,
    stdout: '',
    stderr: /is not an IPv4/
  })
  const withoutRedis = { DATABASE_URL: env.DATABASE_URL }
  t.match(await landfall(withoutRedis, ['limits', 'clear', first]), { code: 1, stderr: /needs REDIS_URL/ })
  t.match(await landfall({ REDIS_URL: 'redis://127.0.0.1:1' }, ['limits', 'show', first]), {
    code: 1,
    stderr: /^Redis cannot be reached: /
  })
})
