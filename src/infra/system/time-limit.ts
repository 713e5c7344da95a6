/** Like AbortSignal.timeout(), for AbortSignal.any(), where Node 20 collects signals without a listener. */
export function timeLimit (ms: number): AbortSignal {
  const signal = AbortSignal.timeout(ms)
  signal.addEventListener('abort', () => {})
  return signal
}
