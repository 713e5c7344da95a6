import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { serveVisits, Visit } from '../../src/database/visit.ts'
import { buildTestApp } from '../helpers/app.ts'
import { temporaryFolder } from '../helpers/service.ts'

t.test('a visitor that is killed with an answer on its way takes nobody along', async (t) => {
  const { database } = await buildTestApp(t)
  const path = join(temporaryFolder(t), 'visit')
  const answered: unknown[] = []
  const server = await serveVisits({
    async run (statement, values) {
      const rows = await database.run(statement, values)
      answered.push(rows)
      return rows
    }
  }, path)
  t.teardown(async () => await server.close())
  const question = `${JSON.stringify({ text: 'SELECT 1 AS one', name: 'landfall_test_visit', values: [] })}\n`
  for (let n = 1; n <= 20; n++) {
    const visitor = connect(path).on('error', () => {})
    await once(visitor, 'connect')
    visitor.pause() // what it has not read is what the kernel resets the connection for
    visitor.write(question)
    while (answered.length < n) await new Promise((resolve) => setImmediate(resolve))
    if (n % 2 === 0) await new Promise((resolve) => setTimeout(resolve, 20)) // else the answer is not even written
    visitor.destroy()
  }
  const socket = connect(path)
  await once(socket, 'connect')
  const visit = new Visit(socket)
  t.same(await visit.run({ text: 'SELECT 1 AS one', name: 'landfall_test_visit' }, []), [{ one: 1 }], 'it goes on')
  visit.close()
})
