import t from 'tap'
import { testRandomBytes } from './random-requests.ts'

// `npm run test:soak` runs a longer version of this test.

t.test('random bytes cause no crash, 500 or logged error', async (t) => await testRandomBytes(t))
