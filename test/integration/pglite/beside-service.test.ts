import { once } from 'node:events'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t from 'tap'
import { besideService } from '../../../src/infra/pglite/beside-service.ts'
import { COMMAND_PORT, socketPath } from '../../../src/infra/pglite/embedded.ts'
import { temporaryFolder } from '../../helpers/service.ts'

t.test('a socket in a folder that other users can enter is not used', async (t) => {
  const folder = temporaryFolder(t)
  const dataDir = join(folder, 'data')
  const sockets = join(folder, 'sockets')
  for (const path of [dataDir, sockets]) await mkdir(path, { mode: 0o700 })
  await writeFile(join(dataDir, 'socket-folder'), sockets)
  const server = createServer((socket) => socket.end()).listen(socketPath(sockets, COMMAND_PORT))
  await once(server, 'listening')
  t.teardown(() => server.close())
  const reached = async () =>
    await besideService(dataDir, async () => 'the service', async () => 'no service')
  t.equal(await reached(), 'the service')
  await chmod(sockets, 0o755)
  t.equal(await reached(), 'no service')
})
