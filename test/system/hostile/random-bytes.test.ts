import { randomInt } from 'node:crypto'
import t from 'tap'
import { Owner } from '../../helpers/client.ts'
import { startServiceOnPostgres } from '../../helpers/app.ts'
import { errorLines, settle, soundRequests, throwRandomBytes } from './random-requests.ts'
import { GENEROUS } from '../../helpers/hostile-service.ts'

// `npm run test:soak` runs a longer version of this test.

const REQUESTS = 2400

t.test('random bytes and broken requests cause no crash, no 500 and no logged error', async (t) => {
  const seed = Number(process.env.SEED ?? randomInt(2 ** 31))
  t.comment(`SEED=${seed}`)
  const service = await startServiceOnPostgres(t, { ...GENEROUS, LOG_LEVEL: 'info' })
  const owner = await Owner.signUp(service.url)
  const { sent, statuses, failures } = await throwRandomBytes(
    service.url,
    await soundRequests(service.url, owner),
    seed,
    (count) => count >= REQUESTS
  )
  t.comment(`${sent} requests: ${JSON.stringify(statuses)}`)
  t.same(failures, [], `seed ${seed}`)
  for (const status of [200, 400, 401, 404]) {
    t.ok((statuses[status] ?? 0) > 0, `some requests get ${status}`)
  }
  await settle()
  t.equal(service.child.exitCode, null, 'the process lives')
  t.same(errorLines(service.output()), [], `seed ${seed}`)
  t.equal((await owner.call('GET', `${service.url}/auth/me`)).status, 200, 'the session is still valid')
})
