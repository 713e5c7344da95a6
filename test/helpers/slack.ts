import { monitorEventLoopDelay } from 'node:perf_hooks'

const delays = monitorEventLoopDelay()
delays.enable()

/**
 * Returns what tests add to a promised time, in milliseconds: an allowance for a busy machine, and the
 * longest time so far for which it did not run this process, and probably not the service either.
 */
export const slackMs = (): number => 3000 + delays.max / 1e6
