import t from 'tap'
import { testConsumers } from './consumers.ts'

// test/system/soak/consumers.soak.ts makes ten times as many writes.

t.test('every replica has the version of a message', async (t) => await testConsumers(t, 1000))
