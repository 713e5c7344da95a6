import t from 'tap'
import { testRandomBytes } from '../hostile/random-requests.ts'

t.test('random bytes over a long time cause no crash, 500 or logged error', async (t) =>
  await testRandomBytes(t, Number(process.env.SOAK_SECONDS) || 600))
