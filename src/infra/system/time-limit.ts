/** AbortSignal.timeout() with a listener: Node 20 collects one without, even if AbortSignal.any() uses it. */
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
 * @throws {Error} if the promise takes longer than `ms` milliseconds; otherwise its own error
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
