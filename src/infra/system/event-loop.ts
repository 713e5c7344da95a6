const waiting: (() => void)[] = []

function runNext (): void {
  waiting.shift()?.()
  // Immediates that are set here run in the next iteration.
  if (waiting.length > 0) setImmediate(runNext)
}

/**
 * Yields to the event loop. Long work is done in slices of about a millisecond. One slice of all such work
 * runs in each iteration, so a request in between waits for one slice at most.
 */
export async function yieldToEventLoop (): Promise<void> {
  await new Promise<void>((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(runNext)
  })
}
