import { join } from 'node:path'
import t from 'tap'
import { call, Owner } from '../../helpers/client.ts'
import { freePort } from '../../helpers/servers.ts'
import { runService, startService, temporaryFolder } from '../../helpers/service.ts'

t.test('the embedded service keeps all data across SIGKILL', async (t) => {
  const folder = temporaryFolder(t)
  const env = { DATA_DIR: join(folder, 'data'), UPLOADS_DIR: join(folder, 'uploads') }
  const first = await startService(t, env)
  const owner = await Owner.signUp(first.url)
  const page = await owner.createPage(first.url, '{"kept":true}')
  const asset = await owner.store(first.url, Buffer.from('kept too'), 'kept.txt')
  t.equal(await first.end('SIGKILL'), 'SIGKILL')
  const { url, end } = await startService(t, { ...env, HOST: 'localhost' })
  const check = async () => {
    t.equal(await owner.accessStatus(url), 200, 'the access token is still valid')
    t.equal(await owner.refresh(url), 200)
    t.equal(await owner.signInStatus(url), 200)
    t.equal((await call('GET', `${url}/landing_pages/${page.public_id}`)).text, '{"kept":true}')
    t.equal((await call('GET', url + asset.path)).text, 'kept too')
  }
  await check()

  const { port } = new URL(url)
  const reaches = async (host: string) =>
    await fetch(`http://${host}:${port}/health/live`).then(({ status }) => status === 200, () => false)
  t.same([await reaches('127.0.0.1'), await reaches('[::1]')], [true, false], 'one address of HOST=localhost')

  const { code, output } = await runService(t, { ...env, PORT: String(await freePort()) })
  t.equal(code, 1, 'a second process on the same folder is rejected')
  t.match(output, env.DATA_DIR)
  t.equal(output.split('\n').filter((line) => line.includes('"level":60,')).length, 1)
  t.notMatch(output, /\n\s+at /, 'no stack')
  await check()
  t.equal(await end('SIGTERM'), 0)
})
