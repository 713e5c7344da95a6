import t from 'tap'
import { testRandomBytes } from '../hostile/random-requests.ts'

t.test('random bytes cause no crash, 500 or logged error for long', async (t) =>
  await testRandomBytes(t, Number(process.env.SOAK_SECONDS) || 600))
