/** Like AbortSignal.timeout(), for AbortSignal.any(), where Node 20 collects signals without a listener. */
export function timeLimit (ms: number): AbortSignal {
  const signal = AbortSignal.timeout(ms)
  signal.addEventListener('abort', () => {})
  return signal
}

/** Number of timers that a time limit is divided into. */
const SLICES = 4

/**
 * Waits for a promise with a time limit. The limit consists of several timers, so that a process that was
 * blocked reads what has arrived before the limit ends (docs/adr/0008-redis-client-and-breaker.md).
 *
 * @throws {Error} after `ms` milliseconds, or the error of the promise
 */
export async function withTimeLimit<T> (promise: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  let turn: NodeJS.Immediate | undefined
  const expired = new Promise<never>((_resolve, reject) => {
    let slicesLeft = SLICES
    const waitForSlice = () => {
      timer = setTimeout(() => {
        turn = setImmediate(() => {
          if (--slicesLeft > 0) waitForSlice()
          else reject(new Error('no response in time'))
        })
      }, ms / SLICES)
    }
    waitForSlice()
  })
  try {
    return await Promise.race([promise, expired])
  } finally {
    clearTimeout(timer)
    clearImmediate(turn)
  }
}
