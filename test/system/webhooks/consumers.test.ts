import t from 'tap'
import { testConsumers } from './consumers.ts'

// test/system/soak/consumers.soak.ts makes five times as many writes.

t.test('every replica has what a message tells, and pages that never rest send, too', async (t) =>
  await testConsumers(t, 2000))
