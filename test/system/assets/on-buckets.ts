import { runOnly } from '../../runner/tap.ts'

// Import this file before tests that use onEachStore: those then run on buckets, and other tests are skipped.

process.env.TEST_STORE = 'bucket'
runOnly(/^bucket: /)
