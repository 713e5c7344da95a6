import { clock } from '../../src/infra/system/clock.ts'
import type { Teardown } from '../shared/guardian.ts'

/** Replaces the process clock until the test ends. `t.intercept` would record each of a million calls. */
export function replaceClock (t: Teardown, now: () => number): void {
  const real = clock.now
  clock.now = now
  t.teardown(() => {
    clock.now = real
  })
}
