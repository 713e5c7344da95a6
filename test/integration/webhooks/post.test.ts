import { once } from 'node:events'
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { createServer as createTcpServer, type AddressInfo, type Socket } from 'node:net'
import { SMTPServer } from 'smtp-server'
import t, { type Test } from 'tap'
import { allowedAddresses, createPost } from '../../../src/modules/webhooks/sending/post.ts'
import { startDnsServer } from '../../helpers/dns-server.ts'
import { listen } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'

// One attempt to send a message, to hostile hosts.

const LOOPBACK = allowedAddresses(['127.0.0.1'])
const NOWHERE = allowedAddresses([])
const post = async (
  send: ReturnType<typeof createPost>,
  url: string,
  signal = AbortSignal.timeout(60_000)
) => await send(url, { 'content-type': 'application/json' }, '{"a":"ä"}', signal)

const startHttp = async (t: Test, listener: RequestListener): Promise<number> =>
  await listen(t, createHttpServer(listener))

/** Starts a TCP server that does what a test wants with each connection. */
async function startTcp (t: Test, onConnection: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>()
  const server = createTcpServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    onConnection(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

t.test('a message arrives whole, and the status decides', async (t) => {
  const bodies: string[] = []
  const port = await startHttp(t, (request, response) => {
    request.setEncoding('utf8').on('data', (text: string) => bodies.push(text)).on('end', () => {
      response.writeHead(Number(request.url?.slice(1)), { 'retry-after': '7', location: '/200' }).end('bye')
    })
  })
  const send = createPost(LOOPBACK)
  t.same(await post(send, `http://127.0.0.1:${port}/204`), {
    status: 204,
    error: null,
    retryAfterSeconds: 7
  })
  for (const status of [301, 307, 410, 500, 503]) {
    t.match(await post(send, `http://127.0.0.1:${port}/${status}`), {
      status,
      error: `The response had the status ${status}`
    })
  }
  t.same(bodies, Array(6).fill('{"a":"ä"}'), 'redirects are not followed')
})

t.test('a name with a private address is not connected to', async (t) => {
  let connections = 0
  const port = await startTcp(t, () => connections++)
  const names: Record<string, string[]> = {
    'loopback.test': ['127.0.0.1'],
    'mixed.test': ['93.184.216.34', '127.0.0.1'],
    'mapped.test': ['0:0:0:0:0:ffff:7f00:1'],
    'nat64.test': ['64:ff9b:0:0:0:0:7f00:1'],
    'one-of-each.test': ['93.184.216.34', '0:0:0:0:0:0:0:1']
  }
  const dns = await startDnsServer(t, (name) => names[name] ?? [])
  const send = createPost(NOWHERE, [dns.address])
  for (
    const host of [...Object.keys(names), 'localhost', 'a.localhost', '127.0.0.1', '[::1]', '2130706433']
  ) {
    t.same(await post(send, `https://${host}:${port}/`), {
      status: null,
      error: 'Connection failed: address not allowed'
    }, host)
  }
  t.equal(connections, 0)
  t.match(await post(send, `https://missing.test:${port}/`), {
    error: 'Connection failed: host name not found'
  })
})

t.test('a name that changes its address reaches no private one', async (t) => {
  let [connections, asked] = [0, 0]
  const port = await startTcp(t, () => connections++)
  // TEST-NET-1 stands for a public address, to which nothing answers.
  const isAllowed = allowedAddresses(['192.0.2.0/24'])
  const dns = await startDnsServer(
    t,
    (_name, type) => type === 'AAAA' ? [] : [asked++ % 2 === 0 ? '192.0.2.1' : '127.0.0.1']
  )
  const send = createPost(isAllowed, [dns.address])
  const errors = await Promise
    .all(Array.from(
      { length: 6 },
      async () => (await post(send, `http://rebinding.test:${port}/`, AbortSignal.timeout(1000))).error
    ))
  t.equal(asked, 6, 'one question for each connection')
  t.equal(errors.filter((error) => error === 'Connection failed: address not allowed').length, 3)
  t.equal(connections, 0)
})

t.test('a huge response costs nothing', async (t) => {
  let written = 0
  const port = await startHttp(t, (_request, response) => {
    response.on('error', () => {}).writeHead(200)
    const more = () => {
      while (!response.destroyed && response.write(Buffer.alloc(65536))) written += 65536
      if (!response.destroyed) response.once('drain', more)
    }
    more()
  })
  t.match(await post(createPost(LOOPBACK), `http://127.0.0.1:${port}/`), { status: 200, error: null })
  t.ok(written < 64 * 1024 * 1024, `${written} bytes`)
})

t.test('hosts that answer badly, slowly or not at all fail with a sentence of ours', async (t) => {
  const send = createPost(LOOPBACK)
  const upgrade = 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'
  const cases: [answer: (socket: Socket) => void, error: string, status?: number][] = [
    [(socket) => socket.write(upgrade), 'The response had the status 101', 101],
    [(socket) => socket.end('SSH-2.0-OpenSSH\r\n'), 'The response is not valid HTTP'],
    [(socket) => socket.destroy(), 'Connection failed: connection closed'],
    [
      (socket) => socket.write(`HTTP/1.1 200 OK\r\nx: ${'a'.repeat(1024 * 1024)}\r\n\r\n`),
      'The response is not valid HTTP'
    ],
    [() => {}, 'No response within 15 seconds'],
    [(socket) => {
      const timer = setInterval(() => socket.write('HTTP/1.1 103 Early Hints\r\n\r\n'), 10)
      socket.on('close', () => clearInterval(timer))
    }, 'Connection failed']
  ]
  await Promise.all(cases.map(async ([answer, error, status = null]) => {
    let isClosed = false
    const port = await startTcp(t, (socket) => {
      socket.once('data', () => answer(socket)).on('close', () => {
        isClosed = true
      })
    })
    t.match(await post(send, `http://127.0.0.1:${port}/`), { status, error })
    await until(() => isClosed, `the connection is closed: ${error}`)
  }))
  const closed = await startTcp(t, (socket) => socket.destroy())
  t.match(await post(createPost(LOOPBACK), `http://127.0.0.1:${closed}/`), { status: null })
})

t.test('certificates are checked, whatever the environment says', async (t) => {
  const { key, cert } = new SMTPServer({ secure: true, logger: false }).options // signed by nobody
  const port = await listen(t, createHttpsServer({ key, cert }, (_request, response) => response.end()))
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  t.teardown(() => delete process.env.NODE_TLS_REJECT_UNAUTHORIZED)
  t.match(await post(createPost(LOOPBACK), `https://127.0.0.1:${port}/`), {
    status: null,
    error: /^Connection failed: certificate /
  })
})

t.test('servers cannot demand Diffie-Hellman in a finite field, which may take a second', async (t) => {
  const { key, cert } = new SMTPServer({ secure: true, logger: false }).options
  const options = { key, cert, dhparam: 'auto', ciphers: 'DHE', maxVersion: 'TLSv1.2' as const }
  const port = await listen(t, createHttpsServer(options))
  t.match(await post(createPost(LOOPBACK), `https://127.0.0.1:${port}/`), {
    status: null,
    error: 'Connection failed: certificate or TLS not valid'
  })
})

t.test('proxies of the environment are not used', async (t) => {
  let proxied = 0
  const proxy = await startTcp(t, (socket) => {
    proxied++
    socket.destroy()
  })
  const port = await startHttp(t, (_request, response) => response.end())
  for (const name of ['HTTP_PROXY', 'HTTPS_PROXY', 'NODE_USE_ENV_PROXY']) {
    process.env[name] = name === 'NODE_USE_ENV_PROXY' ? '1' : `http://127.0.0.1:${proxy}`
    t.teardown(() => delete process.env[name])
  }
  t.match(await post(createPost(LOOPBACK), `http://127.0.0.1:${port}/`), { status: 200 })
  t.equal(proxied, 0)
})
