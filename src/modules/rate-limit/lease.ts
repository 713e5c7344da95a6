import type { Count } from './local-windows.ts'

const NONE: ReadonlySet<string> = new Set()

/** A client's window as this process knows it. Counts are reads; times are in ms of the process clock. */
export class Lease {
  /** Reads this process may still allow without asking Redis. */
  left = 0
  /** Reads granted to all processes in this window, including `left`. */
  total = 0
  /** Reads among `total` that were granted to this process or reported by it. */
  own = 0
  /** When the window ends; never later than in Redis. */
  resetAt = 0
  /** Identifies the window in Redis; 0 before the first answer. */
  id = 0
  /** Reads of this window that this process allowed without Redis before it asked, and has not reported. */
  unreported = 0
  /** The end of the client's previous window; -Infinity if it is not known. */
  previousEnd = -Infinity
  /** The processes that have reported their shares of this window, as far as this one knows. */
  reporters: ReadonlySet<string> = NONE
  /** The reserve to request the next time. */
  nextReserve = 0
  /** The value of `left` at which the next lease is requested early; -1 for no early request. */
  askAt = -1
  /** The value of `left` when this process began to count locally; -1 if it doesn't count locally. */
  localFrom = -1
  /** Whether no process has reads of the window left. */
  exhausted = false
  /** Whether a request for more reads is under way. */
  asking = false
  /** Whether Redis lists this process as one that may hold unspent reads. */
  holds = false
  /** Whether a recall arrived while this process was asking for more reads. */
  recallPending = false
  /** Resolves the waiting reads. */
  readonly waiting: ((count: Count) => void)[] = []

  get count (): Count {
    return { allowed: true, used: this.total - this.left, resetAt: this.resetAt }
  }

  get refusal (): Count {
    return { allowed: false, used: this.total, resetAt: this.resetAt }
  }

  /** Allows as many waiting reads as there are reads left. Returns their number. */
  serveWaiting (): number {
    const served = Math.min(this.left, this.waiting.length)
    for (const resolve of this.waiting.splice(0, served)) {
      this.left--
      resolve(this.count)
    }
    return served
  }

  /** Refuses all waiting reads. */
  refuseWaiting (): void {
    for (const resolve of this.waiting.splice(0)) resolve(this.refusal)
  }
}
