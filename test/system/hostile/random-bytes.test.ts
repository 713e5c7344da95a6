import t from 'tap'
import { testRandomBytes } from './random-requests.ts'

// `npm run test:soak` runs a longer version of this test.

t.test('random bytes and broken requests cause no crash, no 500 and no logged error', async (t) =>
  await testRandomBytes(t))
