// Long work on the event loop is done in slices. The slices of all such work take turns, one in each turn of
// the loop: a request in between waits for one slice at most, however much work there is.

const waiting: (() => void)[] = []

/** Resolves when the caller may do a slice of long work, in the order of the calls. */
export async function nextTurn (): Promise<void> {
  await new Promise<void>((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(takeTurn)
  })
}

function takeTurn (): void {
  waiting.shift()?.()
  // Immediates that are set here run in the next turn.
  if (waiting.length > 0) setImmediate(takeTurn)
}
