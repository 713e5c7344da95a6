import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import t from 'tap'
import { servePostgresWire } from '../../../src/infra/pglite/postgres-wire-server.ts'
import { temporaryFolder } from '../../helpers/service.ts'

const message = (type: string, ...parts: (string | Buffer)[]): Buffer => {
  const body = Buffer.concat(parts.map((part) => typeof part === 'string' ? Buffer.from(`${part}\0`) : part))
  const head = Buffer.alloc(5)
  head.write(type)
  head.writeUInt32BE(4 + body.length, 1)
  return Buffer.concat([head, body])
}
const startup = (): Buffer => {
  const parameters = Buffer.from('user\0postgres\0database\0postgres\0\0')
  const head = Buffer.alloc(8)
  head.writeUInt32BE(8 + parameters.length)
  head.writeUInt32BE(196608, 4)
  return Buffer.concat([head, parameters])
}
const statement = (sql: string): Buffer =>
  Buffer.concat([
    message('P', '', sql, Buffer.alloc(2)),
    message('B', '', '', Buffer.alloc(6)),
    message('D', Buffer.from('P'), ''),
    message('E', '', Buffer.alloc(4)),
    message('S')
  ])

t.test('every statement gets exactly one ReadyForQuery, also when it fails', async (t) => {
  const db = await PGlite.create()
  await db
    .exec("CREATE TABLE one (id integer PRIMARY KEY, text text); INSERT INTO one VALUES (1, repeat('x', " +
      '300000))')
  const path = join(temporaryFolder(t), 's')
  const server = await servePostgresWire(db, path, (error) => t.error(error))
  const socket = connect(path)
  t.teardown(async () => {
    socket.destroy()
    await server.close()
    await db.close()
  })

  let received = Buffer.alloc(0)
  socket.on('data', (data) => {
    received = Buffer.concat([received, data])
  })
  /** The types of all messages received since the last request. */
  const types = (): string => {
    let found = ''
    for (let at = 0; at + 5 <= received.length; at += 1 + received.readUInt32BE(at + 1)) {
      found += String.fromCharCode(received[at] as number)
    }
    return found
  }
  const ask = async (bytes: Buffer): Promise<string> => {
    received = Buffer.alloc(0)
    socket.write(bytes)
    while (!types().includes('Z')) await once(socket, 'data')
    return types()
  }

  t.match(await ask(startup()), /^R.*KZ$/)
  for (let round = 0; round < 3; round++) {
    t.match(await ask(statement('SELECT id FROM one')), /^12TDCS*Z$/)
    t.match(await ask(statement('INSERT INTO one VALUES (1)')), /^12nEZ$/, 'an error of Execute')
    t.match(await ask(statement('SELECT nothing')), /^EZ$/, 'an error of Parse')
    t.match(await ask(statement('SELECT * FROM one')), /^12TDCZ$/, 'a response in several chunks')
    t.match(await ask(message('Q', 'SELECT 1/0')), /^EZ$|^TEZ$/, 'a simple statement')
  }
})
