import t from 'tap'
import { buildTestApp, listen, signUp } from '../../helpers/app.ts'
import { connection as connectionTo } from '../../helpers/raw.ts'

// Bodies in chunks of one byte each.

const chunked = (bytes: Buffer | string): Buffer =>
  Buffer.concat([...Buffer.from(bytes)].flatMap((byte) => [Buffer.from(`1\r\n`), Buffer.of(byte, 13, 10)]))
const END = '0\r\n\r\n'

t.test('a body in chunks of one byte is read correctly', async (t) => {
  const app = await buildTestApp(t)
  const connection = connectionTo(t, await listen(app))
  const { headers: { authorization } } = await signUp(app)
  const document = JSON.stringify({ text: 'ä'.repeat(5000), last: 1 })
  const head = (path: string, type: string) =>
    `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\nContent-Type: ` +
    `${type}\r\nTransfer-Encoding: chunked\r\n\r\n`
  const post = async (path: string, type: string, body: Buffer | string) => {
    connection.send(Buffer.concat([Buffer.from(head(path, type)), chunked(body), Buffer.from(END)]))
    return await connection.response()
  }
  const page = await post('/landing_pages', 'application/json', `{"current_data":${document}}`)
  t.equal(page.status, 201)
  t.ok(page.body.toString().includes(`"current_data":${document},`), 'the document is returned byte for byte')

  const content = Buffer.from(Array.from({ length: 20_000 }, (_, n) => n % 251))
  const form = Buffer.concat([
    Buffer.from('--b\r\nContent-Disposition: form-data; name="asset[file]"; filename="x"\r\n\r\n'),
    content,
    Buffer.from('\r\n--b--\r\n')
  ])
  const asset = await post('/assets', 'multipart/form-data; boundary=b', form)
  t.equal(asset.status, 201)
  const { url, byte_size: byteSize } = JSON.parse(asset.body.toString())
  t.equal(byteSize, content.length)
  t.ok((await app.inject(new URL(url).pathname)).rawPayload.equals(content))
})

t.test('chunks of one byte use little memory', async (t) => {
  const app = await buildTestApp(t, { BODY_TIMEOUT_MS: '60000' })
  const url = await listen(app)
  const half = chunked('x'.repeat(60_000))
  let read = 0
  app.server.prependListener('request', (request) => {
    request.on('end', () => {
      read++
    })
  })
  const memory = async () => {
    for (let n = 0; n < 5; n++) {
      global.gc?.()
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    const { heapUsed, arrayBuffers, external } = process.memoryUsage()
    return heapUsed + Math.max(arrayBuffers, external)
  }
  const before = await memory()
  const head = 'POST /auth/sign_in HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n' +
    'Transfer-Encoding: chunked\r\n\r\n'
  const sockets = Array.from({ length: 20 }, () => {
    const connection = connectionTo(t, url)
    connection.send(Buffer.concat([Buffer.from(head), half]))
    return connection
  })
  const received = async () =>
    await new Promise<number>((resolve, reject) =>
      app.server.getConnections((error, count) => error === null ? resolve(count) : reject(error))
    )
  while (await received() < sockets.length || sockets.some(({ socket }) => socket.writableLength > 0)) {
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  const grown = await memory() - before
  t.equal(read, 0, 'all bodies are still incomplete')
  t.ok(grown < 40 * 1024 * 1024, `20 bodies of 60 KB take ${Math.round(grown / 1024 / 1024)} MB`)
})
