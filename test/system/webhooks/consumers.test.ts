import t from 'tap'
import { testConsumers } from './consumers.ts'

// test/system/soak/consumers.soak.ts makes ten times as many writes.

t.test('every replica has the version of a message, and pages that change all the time send messages', async (t) =>
  await testConsumers(t, 1000))
