import t from 'tap'
import { testCoherence } from '../helpers/coherence.ts'

// What may overtake what, step by step, is in test/landing-pages/document-cache.test.ts. This is everything at once;
// test/soak/coherence.soak.ts does ten times as much of it.

t.test('10,000 operations on three replicas, with delays and faults between them: no read contradicts another or a write', async (t) =>
  await testCoherence(t, { operations: 10_000, progress: (line) => t.comment(line) }))
