import { get, type IncomingMessage } from 'node:http'
import t from 'tap'
import { JWT_SECRET, PASSWORD } from '../../helpers/app.ts'
import { claimRedis, createDatabase } from '../../helpers/servers.ts'
import { startService, temporaryFolder } from '../../helpers/service.ts'

// The limit of three processes as their clients see it.

t.test('three replicas grant exactly one limit to a client that reads from all of them', async (t) => {
  const env = {
    DATABASE_URL: await createDatabase(t),
    REDIS_URL: await claimRedis(t),
    JWT_SECRET,
    UPLOADS_DIR: temporaryFolder(t),
    LOG_LEVEL: 'warn',
    TRUST_PROXY: '127.0.0.0/8,::1',
    ALLOWED_HOSTS: 'www.example.com'
  }
  const services = [await startService(t, env),
    ...await Promise.all([startService(t, env), startService(t, env)])]
  const urls = services.map(({ url }) => url)
  const page = await createPage(urls[0] as string)

  const read = async (
    replica: number,
    client: string,
    headers: Record<string, string> = {}
  ): Promise<number> =>
    await new Promise((resolve, reject) => {
      get(
        `${urls[replica]}/landing_pages/${page}`,
        { headers: { 'x-forwarded-for': client, ...headers } },
        (response: IncomingMessage) => {
          response.resume().on('end', () => resolve(response.statusCode as number))
        }
      ).on('error', reject)
    })
  const passed = (statuses: readonly number[]): number => statuses.filter((status) => status === 200).length
  const allowed = { origin: 'https://www.example.com' }

  const inTurn: number[] = []
  for (let n = 0; n < 45; n++) inTurn.push(await read(n % 3, '192.0.2.1'))
  t.same(inTurn, [...Array(30).fill(200), ...Array(15).fill(429)], 'in turn: 30, then none')

  const atOnce = await Promise.all(Array.from({ length: 90 }, async (_, n) => await read(n % 3, '192.0.2.2')))
  t.equal(passed(atOnce), 30, 'at once')

  const thousand: number[] = []
  for (let n = 0; n < 1050; n++) thousand.push(await read(n % 3, '192.0.2.3', allowed))
  t.equal(passed(thousand), 1000, 'an allowed host that reads from the replicas in turn')
  t.equal(thousand.lastIndexOf(200), 999, 'the first thousand reads succeed')

  const leaning: number[] = []
  for (let n = 0; n < 1050; n++) {
    leaning.push(await read(n % 10 === 0 ? 1 + n % 3 % 2 : 0, '192.0.2.4', allowed))
  }
  t.equal(passed(leaning), 1000, '90 % of the reads on one replica')

  for (let n = 0; n < 100; n++) await read(0, '192.0.2.5', allowed)
  t.equal(await services[0]?.end('SIGTERM'), 0)
  const afterwards: number[] = []
  for (let n = 0; n < 950; n++) afterwards.push(await read(1 + n % 2, '192.0.2.5', allowed))
  t.equal(passed(afterwards), 900, 'a replica that shuts down returns its unspent reads')
})

async function createPage (url: string): Promise<string> {
  const post = async (path: string, body: unknown, headers: Record<string, string> = {}) => {
    const response = await fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body)
    })
    return await response.json() as Record<string, string>
  }
  const account = await post('/auth/sign_up', {
    user: { email: 'owner@example.com', password: PASSWORD, password_confirmation: PASSWORD }
  })
  const page = await post('/landing_pages', { current_data: { hello: 'world' } }, {
    authorization: `Bearer ${account.access_token}`
  })
  return page.public_id as string
}
