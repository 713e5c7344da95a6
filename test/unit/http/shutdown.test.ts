import { once } from 'node:events'
import { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import fastify, { type FastifyInstance } from 'fastify'
import t from 'tap'
import shutdown from '../../../src/http/shutdown.ts'
import { clock } from '../../../src/infra/system/clock.ts'
import { replaceClock } from '../../helpers/clock.ts'
import { connection } from '../../helpers/raw.ts'
import { until } from '../../helpers/until.ts'

type Internals = Socket & { _httpMessage?: unknown, hidden?: unknown }

t.test('a shutdown on a Node with other internals cuts off no request', async (t) => {
  const { assignSocket } = ServerResponse.prototype
  const sockets: Internals[] = []
  t.intercept(ServerResponse.prototype, 'assignSocket', {
    value (this: ServerResponse, socket: Internals) {
      assignSocket.call(this, socket)
      socket.hidden = socket._httpMessage
      delete socket._httpMessage
      sockets.push(socket)
    }
  })
  const polls = t.capture(Server.prototype, 'closeIdleConnections') // uses the property, too
  const app = fastify() as unknown as FastifyInstance
  const settings = { SHUTDOWN_DELAY_MS: 0, SHUTDOWN_TIMEOUT_MS: 600_000 }
  app.decorate('config', settings as FastifyInstance['config'])
  await app.register(shutdown)
  let finish = (): void => {}
  const finished = new Promise<void>((resolve) => {
    finish = resolve
  })
  app.get('/', async () => {
    await finished
    return 'done'
  })
  const client = connection(t, await app.listen({ host: '127.0.0.1', port: 0 }))
  client.send('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  await once(app.server, 'request')

  let count = 0
  const polled = async (times: number) => await until(() => (count += polls().length) >= times)
  const closed = app.close()
  await polled(2)
  const later = clock.now() + 5000
  replaceClock(t, () => later)
  await polled(5)
  for (const socket of sockets) socket._httpMessage = socket.hidden // Node itself needs it to respond
  finish()
  t.match(await client.response(), { status: 200 })
  client.socket.destroy()
  await closed
})
