import t from 'tap'
import { testCoherence } from '../helpers/coherence.ts'

t.test('100,000 operations on three replicas, with delays and faults between them: no read contradicts another or a write', async (t) =>
  await testCoherence(t, { operations: 100_000, progress: (line) => console.error(line) }))
