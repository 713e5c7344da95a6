import t from 'tap'
import { testCoherence } from './coherence.ts'

// test/integration/landing-pages/document-cache.test.ts tests each race alone. This test runs all of them at
// once, and test/system/soak/coherence.soak.ts runs ten times as many operations.

t.test('in 10,000 operations on three replicas with delays and faults, no read contradicts a write or another read', async (t) =>
  await testCoherence(t, { operations: 10_000 }))
