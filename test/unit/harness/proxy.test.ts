import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { createProxy, type Proxy, type Teardown } from '../../helpers/servers.ts'

/** Starts a proxy and a server that answers with the received text in upper case. */
async function startProxiedServer (t: Teardown): Promise<{ proxy: Proxy, received: () => string }> {
  let received = ''
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('data', (data) => {
      received += String(data)
      socket.write(String(data).toUpperCase())
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const proxy = await createProxy(t, `redis://:secret@127.0.0.1:${(server.address() as AddressInfo).port}/3`)
  return { proxy, received: () => received }
}

async function dial (
  t: Teardown,
  proxy: Proxy
): Promise<{ socket: Socket, heard: () => string, ask: (text: string) => Promise<string> }> {
  const socket = connect(proxy.port, '127.0.0.1')
  let heard = ''
  socket.on('data', (data) => {
    heard += String(data)
  })
  socket.on('error', () => {})
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  return {
    socket,
    heard: () => heard,
    async ask (text) {
      socket.write(text)
      return String((await once(socket, 'data'))[0])
    }
  }
}

t.test('the proxy forwards all data and has the URL of the server with another port', async (t) => {
  const { proxy } = await startProxiedServer(t)
  t.equal(proxy.url, `redis://:secret@127.0.0.1:${proxy.port}/3`)
  const { ask, socket } = await dial(t, proxy)
  t.equal(await ask('hello'), 'HELLO')
  t.equal(proxy.connections, 1)
  const closed = once(socket, 'close')
  socket.end()
  await closed
})

t.test('blackhole() holds back the data of old and new connections without closing them', async (t) => {
  const { proxy, received } = await startProxiedServer(t)
  const old = await dial(t, proxy)
  t.equal(await old.ask('before '), 'BEFORE ')
  proxy.blackhole()
  const fresh = await dial(t, proxy)
  old.socket.write('held ')
  fresh.socket.write('held ')
  await sleep(150)
  t.equal(received(), 'before ')
  t.equal(old.heard() + fresh.heard(), 'BEFORE ')
  t.notOk(old.socket.closed || fresh.socket.closed)
  await proxy.restore()
  await Promise.all([once(old.socket, 'data'), once(fresh.socket, 'data')])
  t.equal(old.heard(), 'BEFORE HELD ', 'the data arrives after restore()')
  t.equal(fresh.heard(), 'HELD ')
})

t.test('blackhole() with a pattern affects only connections that match it', async (t) => {
  const { proxy } = await startProxiedServer(t)
  const [subscriber, commands] = await Promise.all([dial(t, proxy), dial(t, proxy)])
  t.equal(await subscriber.ask('subscribe'), 'SUBSCRIBE')
  proxy.blackhole(/subscribe/)
  subscriber.socket.write('ping')
  t.equal(await commands.ask('get'), 'GET')
  await sleep(50)
  t.equal(subscriber.heard(), 'SUBSCRIBE')
})

t.test('refuse() closes open connections and refuses new ones until restore()', async (t) => {
  const { proxy } = await startProxiedServer(t)
  const old = await dial(t, proxy)
  await old.ask('before')
  const closed = new Promise((resolve) => old.socket.once('close', resolve))
  await proxy.refuse()
  await closed
  t.equal(proxy.connections, 0)
  await t.rejects(dial(t, proxy), { code: 'ECONNREFUSED' })
  await proxy.restore()
  t.equal(await (await dial(t, proxy)).ask('after'), 'AFTER')
})

t.test('disconnect() closes open connections and accepts new ones', async (t) => {
  const { proxy } = await startProxiedServer(t)
  const old = await dial(t, proxy)
  await old.ask('before')
  const closed = new Promise((resolve) => old.socket.once('close', resolve))
  proxy.disconnect()
  await closed
  t.equal(await (await dial(t, proxy)).ask('after'), 'AFTER')
})

t.test('delay() delays answers, and they stay in order when the delay ends', async (t) => {
  const { proxy } = await startProxiedServer(t)
  const { ask, socket, heard } = await dial(t, proxy)
  proxy.delay(200)
  const started = performance.now()
  t.equal(await ask('a'), 'A')
  t.ok(performance.now() - started >= 199)
  socket.write('b')
  await sleep(50)
  proxy.delay(0)
  socket.write('c')
  while (heard().length < 3) await once(socket, 'data')
  t.equal(heard(), 'ABC')
})

t.test('restore({ forget: true }) drops the held data of old connections and serves new ones', async (t) => {
  const { proxy } = await startProxiedServer(t)
  const old = await dial(t, proxy)
  await old.ask('before')
  proxy.blackhole()
  old.socket.write('lost')
  await proxy.restore({ forget: true })
  t.equal(await (await dial(t, proxy)).ask('after'), 'AFTER')
  t.equal(old.heard(), 'BEFORE')
})
