/**
 * The clock of everything that lasts for a while: windows of limits, freshness of copies. `now()` is in whole
 * milliseconds since some moment and never goes back or jumps, as the time of day does when somebody sets it.
 */
export const clock = { now: (): number => Math.floor(performance.now()) }
