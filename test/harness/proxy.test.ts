import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { createProxy, type Proxy, type Teardown } from '../helpers/servers.ts'

// A server that answers each piece of data with the same in capitals.
async function shoutThrough (t: Teardown): Promise<{ proxy: Proxy, received: () => string }> {
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

async function dial (t: Teardown, proxy: Proxy): Promise<{ socket: Socket, heard: () => string, ask: (text: string) => Promise<string> }> {
  const socket = connect(proxy.port, '127.0.0.1')
  let heard = ''
  socket.on('data', (data) => { heard += String(data) })
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

t.test('it passes everything on, under the same URL with another port', async (t) => {
  const { proxy } = await shoutThrough(t)
  t.equal(proxy.url, `redis://:secret@127.0.0.1:${proxy.port}/3`)
  const { ask, socket } = await dial(t, proxy)
  t.equal(await ask('hello'), 'HELLO')
  t.equal(proxy.connections, 1)
  const closed = once(socket, 'close')
  socket.end()
  await closed
})

t.test('in a black hole nothing comes through and nothing is closed, old connections and new', async (t) => {
  const { proxy, received } = await shoutThrough(t)
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
  t.equal(old.heard(), 'BEFORE HELD ', 'what was held arrives afterwards')
  t.equal(fresh.heard(), 'HELD ')
})

t.test('a black hole can swallow one kind of connection only', async (t) => {
  const { proxy } = await shoutThrough(t)
  const [subscriber, commands] = await Promise.all([dial(t, proxy), dial(t, proxy)])
  t.equal(await subscriber.ask('subscribe'), 'SUBSCRIBE')
  proxy.blackhole(/subscribe/)
  subscriber.socket.write('ping')
  t.equal(await commands.ask('get'), 'GET')
  await sleep(50)
  t.equal(subscriber.heard(), 'SUBSCRIBE')
})

t.test('refusing breaks what is open and lets nobody in, until it is restored on the same port', async (t) => {
  const { proxy } = await shoutThrough(t)
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

t.test('disconnecting breaks what is open once', async (t) => {
  const { proxy } = await shoutThrough(t)
  const old = await dial(t, proxy)
  await old.ask('before')
  const closed = new Promise((resolve) => old.socket.once('close', resolve))
  proxy.disconnect()
  await closed
  t.equal(await (await dial(t, proxy)).ask('after'), 'AFTER')
})

t.test('answers can come late, and stay in order when they come faster again', async (t) => {
  const { proxy } = await shoutThrough(t)
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

t.test('connections that are forgotten stay dead, others work', async (t) => {
  const { proxy } = await shoutThrough(t)
  const old = await dial(t, proxy)
  await old.ask('before')
  proxy.blackhole()
  old.socket.write('lost')
  await proxy.restore({ forget: true })
  t.equal(await (await dial(t, proxy)).ask('after'), 'AFTER')
  t.equal(old.heard(), 'BEFORE')
})
