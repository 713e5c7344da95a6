// Long work on the event loop is done in slices of about a millisecond. One slice of all such work runs in
// each iteration of the loop, so a request in between waits for one slice at most.

const waiting: (() => void)[] = []

/** Yields to the event loop. Resolves when the caller may do its next slice, in the order of the calls. */
export async function yieldToEventLoop (): Promise<void> {
  await new Promise<void>((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(runSlice)
  })
}

function runSlice (): void {
  waiting.shift()?.()
  // Immediates that are set here run in the next iteration.
  if (waiting.length > 0) setImmediate(runSlice)
}
