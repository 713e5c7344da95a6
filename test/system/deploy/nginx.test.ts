import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, statSync, symlinkSync,
  writeFileSync } from 'node:fs'
import { connect as connectHttp2 } from 'node:http2'
import { request } from 'node:http'
import { get as getHttps } from 'node:https'
import { basename, dirname, join } from 'node:path'
import { json } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { EXTENSIONS, isInlineType } from '../../../src/modules/assets/storage/storage-key.ts'
import { randomPublicId } from '../../../src/infra/system/identifiers.ts'
import { until } from '../../helpers/until.ts'
import { testSettings } from '../../helpers/app.ts'
import { file, form, FORM, noise } from '../../helpers/assets.ts'
import { ask, checkConsoleOrigin, Owner, type AskOptions, type RawResponse } from '../../helpers/client.ts'
import { provide } from '../../shared/programs.ts'
import { connection } from '../../helpers/raw.ts'
import { BEHIND_PROXY, checkReads, checkRollingRestart,
  checkSharedLimit } from '../../helpers/behind-proxy.ts'
import { claimRedis, freePort } from '../../helpers/servers.ts'
import { startService, temporaryFolder, type Service } from '../../helpers/service.ts'
import { startBalancer } from '../../shared/balancer.ts'
import { createCertificate } from './certificate.ts'

// Tests the nginx configuration of docker-compose.yml with two replicas behind it.

const nginx = provide('nginx')
const MAX_UPLOAD_BYTES = 4 * 1024 * 1024

async function startSite (t: Test) {
  const env: Record<string, string> = {
    ...await testSettings(t),
    REDIS_URL: await claimRedis(t),
    ...BEHIND_PROXY,
    MAX_UPLOAD_BYTES: String(MAX_UPLOAD_BYTES)
  }
  const uploads = env.UPLOADS_DIR as string
  const ports = [await freePort(), await freePort()]
  const start = async (index: number) => await startService(t, { ...env, PORT: String(ports[index]) })
  const replicas: [Service, Service] = [await start(0), await start(1)]
  const balancer = await startBalancer(t, {
    nginx,
    uploads,
    replicas: [`http://127.0.0.1:${ports[0]}`, `http://127.0.0.1:${ports[1]}`]
  })
  return {
    balancer,
    url: balancer.url,
    errors: () => balancer.errors(),
    replicas,
    uploads,
    owner: await Owner.signUp(balancer.url),
    /** Starts a replica that has ended again, on the same port. */
    restart: async (index: number) => {
      replicas[index] = await start(index)
      const requests = () =>
        balancer.log().filter(({ replica }) => String(replica).endsWith(`:${ports[index]}`))
      const before = requests().length
      await until(() => requests().length > before, `replica ${index} is used again`)
    }
  }
}

/**
 * Returns the part of a response that has to be the same from nginx and from the service. ETags may differ.
 */
function comparable ({ status, headers, body }: RawResponse): object {
  const {
    date: _date,
    server: _server,
    connection: _connection,
    'keep-alive': _keepAlive,
    'x-request-id': id,
    'accept-ranges': ranges,
    etag,
    ...rest
  } = headers
  return {
    ...rest,
    status,
    body: body.toString('latin1'),
    hasId: typeof id === 'string' && id !== '',
    // nginx sends no ETag with its own 412.
    hasStrongTag: etag === undefined || status === 412 ? undefined : /^"[^"]+"$/.test(String(etag)),
    ...status === 200 && { ranges }
  }
}

t.test('two replicas behind nginx', async (t) => {
  const site = await startSite(t)
  const { url, owner, replicas, balancer, uploads } = site
  const direct = replicas[0].url.replace('localhost', '127.0.0.1')
  /** Checks that nginx sends what the service sends. */
  const isSame = async (t: Test, path: string, options: AskOptions = {}, what = path) =>
    t.same(comparable(await ask(url, path, options)), comparable(await ask(direct, path, options)), what)

  t.test('both replicas count one limit per client and ignore a forged X-Forwarded-For', async (t) => {
    const target = await checkSharedLimit(t, site)
    const lines = () => balancer.log().filter(({ path }) => path === target)
    await until(() => new Set(lines().map(({ replica }) => replica)).size === 2, 'both replicas were used')
    t.match(lines()[0], { address: /^127\.0\.0\.\d+$/, method: 'GET' })
  })

  t.test('compressed documents keep their strong ETags, and answers keep request ids', async (t) => {
    const document = JSON.stringify({ text: 'Landing page. '.repeat(3000) })
    const { public_id: publicId } = await owner.createPage(url, document)
    const headers = { origin: 'https://reader.test', 'x-request-id': 'kept/1' }
    const read = async (more: Record<string, string> = {}) =>
      await ask(url, `/landing_pages/${publicId}`, { headers: { ...headers, ...more } })
    for (const encoding of ['br', 'gzip']) {
      const accepted = { 'accept-encoding': encoding }
      const { status, headers, body } = await read(accepted)
      const { etag } = headers
      t.match([status, headers['content-encoding'], etag], [200, encoding, /^"[^"]+"$/])
      t.match(headers, { 'x-request-id': 'kept/1', vary: /accept-encoding/i })
      t.ok(body.length < document.length / 10)
      t.equal((await read({ ...accepted, 'if-none-match': String(etag) })).status, 304)
    }
    t.equal((await read()).body.toString(), document)
    t.not(
      (await ask(url, '/health/live', { headers: { 'x-request-id': 'not sane\t' } })).headers['x-request-id'],
      'not sane\t'
    )
  })

  t.test('a write that waits is sent once, and has its receipt', async (t) => {
    const { id } = await owner.createPage(url, '{}')
    const path = `${url}/manage/landing_pages/${id}/document`
    const response = await owner.call('PUT', path, { json: { a: 1 }, headers: { prefer: 'wait=10' } })
    t.same([response.status, response.headers.get('preference-applied')], [204, 'wait'])
    t.match((await owner.call('GET', `${url}/manage/landing_pages/${id}`)).text, '"version":2')
  })

  /** Writes a file of an asset, or of a variant. Returns its path. */
  const putFile = (content: Buffer | string, end = '.png', folder = '') => {
    const name = `${randomPublicId()}${end}`
    const file = join(uploads, folder, name)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, content)
    return `/uploads/${name}`
  }

  t.test('nginx sends files that browsers display with the headers of the service', async (t) => {
    const content = randomBytes(5000)
    const types = Object.entries(EXTENSIONS).filter(([type]) => isInlineType(type))
    const paths = [
      ...types.map(([, extension]) => putFile(content, `.${extension}`)),
      ...['jpg', 'png', 'webp'].map((extension) => putFile(content, `/w320.${extension}`, '.variants'))
    ]
    for (const path of paths) await isSame(t, path)
    const lines = () => balancer.log().filter(({ path }) => paths.includes(String(path)))
    await until(() => lines().length === paths.length, 'the requests are in the log')
    t.same(
      lines().map(({ replica, status }) => [replica, status]),
      paths.map(() => ['', 200]),
      'nginx used no replica'
    )

    /** Requests for a file with these headers. */
    const requestsFor = ({ etag = '', 'last-modified': modified = '' }: RawResponse['headers']) => {
      const range = 'bytes=10-19'
      const conditions: Record<string, string>[] = [
        ...[range, 'bytes=-100', 'bytes=0-1,10-19'].map((range) => ({ range })),
        ...['"other"', etag].flatMap((tag): Record<string, string>[] => [
          { 'if-none-match': tag },
          { 'if-match': tag },
          { 'if-range': tag, range }
        ]),
        { 'if-modified-since': modified }
      ]
      return [{ method: 'HEAD' }, ...conditions.map((headers) => ({ headers }))]
    }
    for (const extension of ['.png', '.pdf']) {
      const path = putFile(content, extension)
      const [here, there] = [await ask(url, path), await ask(direct, path)]
      const directRequests = requestsFor(there.headers)
      for (const [index, request] of requestsFor(here.headers).entries()) {
        t.same(
          comparable(await ask(url, path, request)),
          comparable(await ask(direct, path, directRequests[index])),
          `${JSON.stringify(request)} of ${extension}`
        )
      }
      await isSame(t, `${path}?v=1`)
      const { status, body, headers } = await ask(url, path, { headers: { range: 'bytes=6000-' } })
      t.same([status, body.toString()], [416, '{"errors":["Range lies outside of the file"]}'])
      t.match(headers, {
        'content-range': 'bytes */5000',
        'content-type': 'application/json; charset=utf-8',
        'cache-control': /, no-store$/,
        'access-control-allow-origin': '*',
        'x-content-type-options': 'nosniff',
        'content-security-policy': /^default-src 'none'[^,]*$/
      })
    }
  })

  t.test('files in a folder that nginx can not enter come from the service', async (t) => {
    const path = putFile('x')
    chmodSync(uploads, 0o700)
    t.teardown(() => chmodSync(uploads, 0o711))
    await isSame(t, path)
  })

  t.test("a path that isn't a file of an asset gets the response of the service", async (t) => {
    const secret = join(uploads, '..', randomPublicId())
    writeFileSync(secret, 'secret')
    t.teardown(() => rmSync(secret))
    const [link, folder] = [randomPublicId(), randomPublicId()]
    symlinkSync(secret, join(uploads, link))
    mkdirSync(join(uploads, folder))
    for (const name of ['.tmp/half', '.htaccess', 'page.html']) writeFileSync(join(uploads, name), 'secret')
    const real = putFile('x')
    const variant = putFile('secret', '/w320.webp', '.variants')
    const stem = dirname(variant)
    const missing = `/uploads/${randomPublicId()}`
    const requests: Array<[path: string, method?: string]> = [
      ...['', '/', `/${link}`, `/${folder}`, `/${folder}/`, '/.tmp/half', '/.htaccess', '/page.html']
        .map((path): [string] => [`/uploads${path}`]),
      ...['w320.gif', 'w0320.webp', 'w320.webp/'].map((name): [string] => [`${stem}/${name}`]),
      [variant.replace('/uploads', '/uploads/.variants')],
      [`${missing}/w320.webp`],
      [missing],
      [`${missing}.html`],
      [missing, 'HEAD'],
      [variant, 'POST'],
      ...['POST', 'DELETE', 'OPTIONS', 'PUT'].map((method): [string, string] => [real, method]),
      [real.replace('/uploads', '/uploads/')],
      [`${real}/`]
    ]
    for (const [path, method = 'GET'] of requests) {
      const answer = await ask(url, path, { method })
      t.not(answer.status, 200, `${method} ${path}`)
      t.notMatch(answer.body.toString(), 'secret')
      await isSame(t, path, { method }, `${method} ${path}`)
    }
    const outside = [`/uploads/../${basename(secret)}`, '/uploads/%2e%2e%2fetc%2fpasswd', `${real}%00`]
    for (const path of [...outside, '/uploads/%']) {
      const { status, body } = await ask(url, path)
      t.not(status, 200, path)
      t.match(JSON.parse(body.toString()), { errors: [String] }, path)
    }

    const { id, path } = await owner.store(url, randomBytes(10))
    t.equal((await ask(url, path)).status, 200)
    t.equal((await owner.call('DELETE', `${url}/assets/${id}`)).status, 204)
    t.equal((await ask(url, path)).status, 404, 'a deleted file is gone at once')
  })

  t.test('uploads are streamed to a replica, which limits their size', async (t) => {
    const headers = { authorization: `Bearer ${owner.accessToken}`, 'content-type': FORM }
    const content = noise(MAX_UPLOAD_BYTES)
    const upload = form(file(content))
    const { hostname, port } = new URL(url)
    const sent = request({ hostname, port, path: '/assets', method: 'POST', headers, agent: false })
    const answered = once(sent, 'response')
    sent.write(upload.subarray(0, 1024 * 1024))
    const temporary = join(uploads, '.tmp')
    await until(
      () => readdirSync(temporary).some((name) => statSync(join(temporary, name)).size > 500_000),
      'the first part has reached the disk before the last one is sent'
    )
    sent.end(upload.subarray(1024 * 1024))
    const [response] = await answered
    t.equal(response.statusCode, 201)
    t.match(await json(response), { checksum: createHash('sha256').update(content).digest('hex') })

    for (const size of [MAX_UPLOAD_BYTES + 1, 6 * MAX_UPLOAD_BYTES]) {
      const body = form(file(Buffer.alloc(size, 'z')))
      const answer = await ask(url, '/assets', { method: 'POST', headers, body })
      t.match(answer, { status: 413, headers: { 'content-type': /json/ } })
      t.match(answer.body.toString(), /File is too large/, 'the error is that of the service')
    }
  })

  t.test("errors of nginx itself have the form of the service's errors", async (t) => {
    const expectError = (answer: RawResponse, status: number, headers: object = {}) => {
      t.match(answer, {
        status,
        headers: {
          'content-type': 'application/json; charset=utf-8',
          'cache-control': 'no-store',
          'x-content-type-options': 'nosniff',
          'x-request-id': /./,
          ...headers
        }
      })
      t.same(Object.keys(JSON.parse(answer.body.toString())), ['errors'], String(status))
    }
    const auth = { authorization: `Bearer ${owner.accessToken}`, 'content-type': 'application/json' }
    const create = async (size: number) => {
      const body = `{"current_data":{"text":"${'x'.repeat(size)}"}}`
      return await ask(url, '/landing_pages', { method: 'POST', headers: auth, body })
    }
    t.equal((await create(1024 * 1024 - 100)).status, 201, 'the largest document passes')
    const { status, body } = await create(1024 * 1024)
    t.match([status, body.toString()], [413, /too large/], 'the limit of the service applies first')
    expectError(await create(3 * 1024 * 1024), 413)
    expectError(await ask(url, `/landing_pages/${'x'.repeat(20_000)}`), 414)
    expectError(await ask(url, '/health/live', { headers: { 'x-long': 'x'.repeat(17_000) } }), 431)
    const one = ' / HTTP/1.1\r\nHost: a'
    const malformed = [' /landing_pages/x HTTP/1.1', `${one}\r\nHost: b`, `${one} b`, '']
    for (const [head, status] of [...malformed.map((head) => [head, 400]), [' / HTTP/3.0\r\nHost: a', 505]]) {
      const opened = connection(t, url)
      opened.send(`GET${head}\r\n\r\n`)
      const answer = await opened.response()
      t.equal(answer.status, status, `${head}`)
      t.match(answer.head, /\r\nX-Request-Id: \w/i)
      t.match(JSON.parse(answer.body.toString()), { errors: [String] })
    }

    const nobody = `http://127.0.0.1:${await freePort()}`
    const alone = await startBalancer(t, { nginx, uploads, replicas: [nobody, nobody] })
    expectError(await ask(alone.url, '/landing_pages/x'), 502, {
      'retry-after': '1',
      'access-control-allow-origin': '*'
    })
    const write = await ask(alone.url, '/landing_pages', { method: 'POST', body: '{}' })
    expectError(write, 502, { 'retry-after': undefined }) // it may have been carried out
    t.equal((await ask(alone.url, putFile('x'))).status, 200, 'files need no replica')
  })

  t.test('only pages of the port that a browser uses may use its session', async (t) => {
    await checkConsoleOrigin(t, url)
    const opened = connection(t, url)
    opened.send('GET /health/live HTTP/1.0\r\n\r\n')
    t.equal((await opened.response()).status, 200, 'HTTP/1.0 needs no Host')
  })

  t.test(
    'nginx listens on IPv6',
    { skip: !existsSync('/proc/net/if_inet6') && 'no IPv6 here' },
    async (t) => {
      const answer = await fetch(url.replace('127.0.0.1', '[::1]') + '/landing_pages/ipv6')
      t.equal(answer.status, 404)
      await until(() => balancer.log().some(({ path }) => path === '/landing_pages/ipv6'), 'it is in the log')
      t.match(balancer.log().find(({ path }) => path === '/landing_pages/ipv6'), { address: '::1' })
    }
  )

  t.test('the access log has no tokens, and NGINX_ACCESS_LOG=off turns it off', async (t) => {
    const token = randomBytes(32).toString('base64url')
    const paths = [`/log/${token}/x`, `/log/${randomUUID()}?token=${token}`]
    for (const path of paths) await ask(url, path)
    const lines = () =>
      balancer.log().map(({ path }) => String(path)).filter((path) => path.startsWith('/log/'))
    await until(() => lines().length === 2, 'the requests are in the log')
    t.same(lines().sort(), ['/log/...', paths[1]?.split('?')[0]]) // two workers write it

    const silent = await startBalancer(t, {
      nginx,
      uploads,
      replicas: [direct, direct],
      variables: { NGINX_ACCESS_LOG: 'off' }
    })
    t.equal((await ask(silent.url, '/health/live')).status, 200)
    t.same([silent.log(), silent.errors()], [[], ''])
  })

  t.test('the replicas restart one after the other without a failed request', async (t) => {
    await checkRollingRestart(t, site, async (index) => {
      t.equal(await replicas[index]?.end('SIGTERM'), 0)
      await site.restart(index)
    })
  })

  const isReady = async (t: Test) =>
    t.equal((await ask(url, '/health/ready')).status, 200, 'nginx is ready while one replica is')

  t.test('reads succeed while one replica is killed', async (t) => {
    await checkReads(t, site, async () => {
      await replicas[0].end('SIGKILL')
      await isReady(t)
      await site.restart(0)
    })
  })

  t.test('reads succeed while one replica is frozen', async (t) => {
    const group = -(replicas[0].child.pid as number)
    t.teardown(() => process.kill(group, 'SIGCONT'))
    const isRetried = ({ replica_status: statuses }: { replica_status?: unknown }) => statuses === '504, 200'
    await checkReads(t, site, async () => {
      process.kill(group, 'SIGSTOP')
      await until(() => balancer.log().some(isRetried), 'a read was sent to the other replica')
      await isReady(t)
    })
  })

  t.same(
    balancer.errors().split('\n').filter((line) => /\[(emerg|alert)\]/.test(line)),
    [],
    'nginx reports no error in the configuration'
  )
})

t.test('nginx serves HTTPS and HTTP/2 with a certificate', async (t) => {
  const folder = temporaryFolder(t)
  createCertificate(provide('openssl'), folder)
  const service = await startService(t, {
    ...await testSettings(t),
    TRUST_PROXY: '127.0.0.1',
    BASE_URL: 'https://landfall.test',
    STRICT_TRANSPORT_SECURITY: 'max-age=60'
  })
  const uploads = temporaryFolder(t)
  const replica = service.url.replace('localhost', '127.0.0.1')
  const port = await freePort()
  const { url } = await startBalancer(t, {
    nginx,
    uploads,
    replicas: [replica, replica],
    more: ['server.d/tls.conf'],
    variables: {
      NGINX_TLS_PORT: String(port),
      NGINX_TLS_DIR: folder,
      BASE_URL: 'https://landfall.test',
      STRICT_TRANSPORT_SECURITY: 'max-age=60'
    }
  })
  const file = `/uploads/${randomPublicId()}.png`
  writeFileSync(join(uploads, basename(file)), 'x')

  t.match(await ask(url, '/health/live?x=1', { method: 'POST' }), {
    status: 308,
    headers: { location: 'https://landfall.test/health/live?x=1' }
  })
  for (const path of ['/health/live', file]) {
    const [response] = await once(
      getHttps({ port, host: '127.0.0.1', path, rejectUnauthorized: false, agent: false }),
      'response'
    )
    response.resume()
    t.match([response.statusCode, response.headers['strict-transport-security']], [200, 'max-age=60'], path)
  }
  const session = connectHttp2(`https://127.0.0.1:${port}`, { rejectUnauthorized: false })
  t.teardown(() => session.destroy())
  const statusOf = async (path: string, headers: Record<string, string> = {}, body?: string) => {
    const stream = session.request({ ':path': path, ...headers }, { endStream: body === undefined })
    if (body !== undefined) stream.end(body)
    return (await once(stream, 'response'))[0][':status'] as number
  }
  t.same(
    await Promise.all([
      statusOf('/health/ready'),
      statusOf('/landing_pages/x'),
      statusOf(file),
      statusOf('/auth/browser_session', { ':method': 'POST', origin: `https://127.0.0.1:${port}` }),
      // A body of unknown length arrives completely.
      statusOf(
        '/auth/sign_in',
        { ':method': 'POST', 'content-type': 'application/json' },
        '{"user":{"email":"nobody@example.com","password":"correct horse"}}'
      )
    ]),
    [200, 404, 200, 204, 401]
  )
})
