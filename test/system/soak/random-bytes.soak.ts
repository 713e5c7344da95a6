import { randomInt } from 'node:crypto'
import t from 'tap'
import { JWT_SECRET } from '../../helpers/app.ts'
import { Owner } from '../../helpers/client.ts'
import { errorLines, settle, soundRequests, throwRandomBytes } from '../hostile/random-requests.ts'
import { claimRedis, createDatabase } from '../../helpers/servers.ts'
import { startService, temporaryFolder } from '../../helpers/service.ts'
import { GENEROUS } from '../../helpers/hostile-service.ts'

// Sends random bytes and broken requests to every route for SOAK_SECONDS. SEED repeats the requests of a run.

const SECONDS = Number(process.env.SOAK_SECONDS) || 600
const ROUND_SECONDS = 20
const say = (line: string): void => console.error(line)

t.test('random bytes over a long time cause no crash, no 500 and no logged error', async (t) => {
  const service = await startService(t, {
    ...GENEROUS,
    DATABASE_URL: await createDatabase(t),
    REDIS_URL: await claimRedis(t),
    JWT_SECRET,
    UPLOADS_DIR: temporaryFolder(t),
    ACCESS_TOKEN_TTL: '86400'
  })
  const owner = await Owner.signUp(service.url)
  const end = performance.now() + SECONDS * 1000
  let total = 0
  for (let seed = Number(process.env.SEED ?? randomInt(2 ** 31)); performance.now() < end; seed++) {
    // New data in each round, because some of the broken requests still delete.
    const sound = await soundRequests(service.url, owner)
    const roundEnd = Math.min(end, performance.now() + ROUND_SECONDS * 1000)
    const { sent, statuses, failures } = await throwRandomBytes(
      service.url,
      sound,
      seed,
      () => performance.now() >= roundEnd
    )
    total += sent
    say(`SEED=${seed}: ${total} requests so far; answers of this round: ${JSON.stringify(statuses)}`)
    t.same(failures, [], `seed ${seed}: no response is a 500`)
    t.equal(service.child.exitCode, null, `seed ${seed}: the process is running`)
    if (failures.length > 0 || service.child.exitCode !== null) break
  }
  await settle()
  t.same(errorLines(service.output()).slice(0, 20), [])
  t.equal((await owner.call('GET', `${service.url}/auth/me`)).status, 200)
})
