import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { serveAdminSocket, AdminConnection } from '../../../src/infra/pglite/admin-socket.ts'
import { buildTestApp } from '../../helpers/app.ts'
import { temporaryFolder } from '../../helpers/service.ts'

t.test('a client that is killed before it has read its response does not affect the service', async (t) => {
  const { database } = await buildTestApp(t)
  const path = join(temporaryFolder(t), 'connection')
  const answered: unknown[] = []
  const server = await serveAdminSocket({
    async run (statement, values) {
      const rows = await database.run(statement, values)
      answered.push(rows)
      return rows
    }
  }, path)
  t.teardown(async () => await server.close())
  const request = `${JSON.stringify({ text: 'SELECT 1 AS one', name: 'landfall_test_admin', values: [] })}\n`
  for (let n = 1; n <= 20; n++) {
    const client = connect(path).on('error', () => {})
    await once(client, 'connect')
    client.pause() // the kernel resets a connection that has unread data
    client.write(request)
    while (answered.length < n) await new Promise((resolve) => setImmediate(resolve))
    // Every other client is destroyed before the response is written.
    if (n % 2 === 0) await new Promise((resolve) => setTimeout(resolve, 20))
    client.destroy()
  }
  const socket = connect(path)
  await once(socket, 'connect')
  const connection = new AdminConnection(socket)
  t.same(
    await connection.run({ text: 'SELECT 1 AS one', name: 'landfall_test_admin', parameters: [] }, []),
    [{ one: 1 }],
    'the service still answers'
  )
  connection.close()
})
