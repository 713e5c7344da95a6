import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { PASSWORD, startServiceOnPostgres } from '../../helpers/app.ts'
import { call, Owner } from '../../helpers/client.ts'
import { freePort, type Teardown } from '../../helpers/servers.ts'
import { runService, startService, temporaryFolder } from '../../helpers/service.ts'

const signIn = async (url: string, { email }: Owner): Promise<number> =>
  (await call('POST', `${url}/auth/sign_in`, { json: { user: { email, password: PASSWORD } } })).status

interface EmbeddedSettings extends Record<string, string> {
  DATA_DIR: string
  UPLOADS_DIR: string
}

function embedded (t: Teardown): EmbeddedSettings {
  const folder = temporaryFolder(t)
  return { DATA_DIR: join(folder, 'data'), UPLOADS_DIR: join(folder, 'uploads') }
}

interface Stored {
  owner: Owner
  pagePath: string
  assetPath: string
}

async function store (url: string): Promise<Stored> {
  const owner = await Owner.signUp(url)
  const { public_id: publicId } = await owner.createPage(url, '{"kept":true}')
  const asset = JSON.parse((await owner.upload(url, Buffer.from('kept too'), 'kept.txt')).text) as {
    url: string
  }
  return { owner, pagePath: `/landing_pages/${publicId}`, assetPath: new URL(asset.url).pathname }
}

/** Checks that all data is there, and replaces the refresh token. */
async function check (t: Test, url: string, { owner, pagePath, assetPath }: Stored): Promise<void> {
  t.equal((await owner.call('GET', `${url}/auth/me`)).status, 200, 'the access token is still valid')
  const refreshed = await call('POST', `${url}/auth/refresh`, { json: { refresh_token: owner.refreshToken } })
  t.equal(refreshed.status, 200)
  owner.refreshToken = (JSON.parse(refreshed.text) as { refresh_token: string }).refresh_token
  t.equal(await signIn(url, owner), 200)
  t.equal((await call('GET', url + pagePath)).text, '{"kept":true}')
  t.equal((await call('GET', url + assetPath)).text, 'kept too')
}

t.test('the embedded service keeps all data across SIGKILL and SIGTERM', async (t) => {
  const env = embedded(t)
  let service = await startService(t, env)
  const stored = await store(service.url)
  for (const [signal, code] of [['SIGKILL', 'SIGKILL'], ['SIGTERM', 0]] as const) {
    t.equal(await service.end(signal), code)
    service = await startService(t, signal === 'SIGTERM' ? { ...env, HOST: 'localhost' } : env)
    await check(t, service.url, stored)
  }

  await t.test('HOST=localhost listens on one address', async (t) => {
    const { port } = new URL(service.url)
    const reaches = async (host: string) =>
      await fetch(`http://${host}:${port}/health/live`).then(({ status }) => status === 200, () => false)
    t.same([await reaches('127.0.0.1'), await reaches('[::1]')], [true, false])
  })

  await t.test('a second process on the same folder is rejected, and the first continues', async (t) => {
    const { code, output } = await runService(t, { ...env, PORT: String(await freePort()) })
    t.equal(code, 1)
    t.match(output, env.DATA_DIR)
    t.equal(output.split('\n').filter((line) => line.includes('"level":60,')).length, 1)
    t.notMatch(output, /\n\s+at /, 'no stack')
    await check(t, service.url, stored)
  })
  t.equal(await service.end('SIGTERM'), 0)
})

t.test('SIGTERM cuts off no response that is being sent, and waits for no request that has only begun', async (t) => {
  // With these limits a shutdown that waits for its limit would not end.
  const limits = { SHUTDOWN_TIMEOUT_MS: '600000', MAX_DOCUMENT_BYTES: '30000000' }
  const service = await startServiceOnPostgres(t, limits)
  const document = JSON.stringify(['x'.repeat(20_000_000)])
  const page = await (await Owner.signUp(service.url)).createPage(service.url, document)

  const open = (text: string) =>
    connect(Number(new URL(service.url).port), 'localhost').on('error', () => {}).setNoDelay(true).on(
      'connect',
      function (this: Socket) {
        this.write(text)
      }
    )
  const halfBody = 'POST /auth/sign_in HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n' +
    'Content-Length: 100\r\n\r\n{"us'
  const halfSent = ['GET /hea', 'GET /health/live HTTP/1.1\r\nHost: x\r\nX-', halfBody].map(open)
  const reader = open(`GET /landing_pages/${page.public_id} HTTP/1.1\r\nHost: x\r\n\r\n`)
  let received = 0
  reader.on('data', (chunk: Buffer) => {
    received += chunk.length
  })
  await once(reader, 'data')
  reader.pause()
  const ending = service.end('SIGTERM')
  await Promise.all(halfSent.map(async (socket) => {
    socket.resume()
    await once(socket, 'close')
  }))
  reader.resume()
  await once(reader, 'close')
  t.ok(received > document.length, `${received} bytes of the response`)
  t.equal(await ending, 0)
})
