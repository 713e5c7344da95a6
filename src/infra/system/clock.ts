/**
 * The process clock, for durations such as rate limit windows and cache leases. `now()` returns whole
 * milliseconds and is monotonic, unlike the time of day. Tests replace it.
 */
export const clock = { now: (): number => Math.floor(performance.now()) }
