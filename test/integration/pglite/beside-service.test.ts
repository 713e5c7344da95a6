import { once } from 'node:events'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { besideService } from '../../../src/infra/pglite/beside-service.ts'
import { COMMAND_PORT, RESTORING, socketPath } from '../../../src/infra/pglite/embedded.ts'
import { temporaryFolder } from '../../helpers/service.ts'
import { silent } from '../../shared/silent-logger.ts'

t.test('a socket in a folder that other users can enter is not used', async (t) => {
  const folder = temporaryFolder(t)
  const dataDir = join(folder, 'data')
  const sockets = join(folder, 'sockets')
  for (const path of [dataDir, sockets]) await mkdir(path, { mode: 0o700 })
  await writeFile(join(dataDir, 'socket-folder'), sockets)
  const server = createServer((socket) => socket.end()).listen(socketPath(sockets, COMMAND_PORT))
  await once(server, 'listening')
  t.teardown(() => server.close())
  await mkdir(join(dataDir, RESTORING)) // so that no database can be started
  const isServed = async () => await besideService(dataDir, silent, async (_, isServed) => isServed)
  t.equal(await isServed(), true)
  await chmod(sockets, 0o755)
  await t.rejects(isServed(), { message: /contains an interrupted restore/ })
})
