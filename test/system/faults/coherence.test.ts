import t from 'tap'
import { testCoherence } from './coherence.ts'

// test/integration/landing-pages/document-cache.test.ts tests each race alone. This test runs all of them at
// once, and test/system/soak/coherence.soak.ts runs ten times as many operations.

t.test('in 10,000 operations with faults no read contradicts another one', async (t) =>
  await testCoherence(t, { operations: 10_000 }))
