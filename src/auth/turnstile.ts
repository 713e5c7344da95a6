import type { onRequestHookHandler } from 'fastify'

/**
 * An `onRequest` hook that lets a few requests of its routes through in each turn of the event loop, in order. Node
 * works off all that has arrived before it looks for more, and a sign-in is 0.15 ms of work even when it is refused: of
 * 200 at once the last read waited for 30 ms. Here they wait before anything is done for them, and whatever arrives
 * meanwhile for others is answered in between.
 *
 * @param perTurn how many
 */
export function inTurns (perTurn: number): onRequestHookHandler {
  const waiting: (() => void)[] = []
  let scheduled = false
  function turn (): void {
    for (const pass of waiting.splice(0, perTurn)) pass()
    scheduled = waiting.length > 0
    if (scheduled) setImmediate(turn)
  }
  return (_request, _reply, done) => {
    waiting.push(done)
    if (scheduled) return
    scheduled = true
    setImmediate(turn)
  }
}
