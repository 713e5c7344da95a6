import type { ClientWindow } from './client-table.ts'
import { NO_WINDOW, type KnownWindow, type LeaseResponse, type LeaseRequest } from './lease-script.ts'
import type { Count } from './counters.ts'

const NONE: ReadonlySet<string> = new Set()

/** `left` never has this value. A number, because each read compares it, and undefined is slower. */
export const NOT_EARLY = -1

/** Returns the latest of some times of which any may be unknown. */
export function latest (...times: readonly (number | undefined)[]): number | undefined {
  const known = times.filter((time) => time !== undefined)
  return known.length === 0 ? undefined : Math.max(...known)
}

/** A client's window as this process knows it. Counts are reads; times are in ms of the process clock. */
export class Lease {
  /** The id to which its reads are granted: that of this process, its earlier one, or one of its own. */
  readonly processId: string
  /** The id of this process under which it has reported its share to this window; empty if it hasn't. */
  reportedFor = ''
  /** Reads this process may still allow without asking Redis. */
  left = 0
  /** Reads granted to all processes in this window, including `left`. */
  total = 0
  /** Reads among `total` that were granted to this process or reported by it, as Redis counts them. */
  own = 0
  /** When the window ends; never later than in Redis. */
  resetAt = 0
  /** Identifies the window in Redis. */
  id = NO_WINDOW
  /** Reads of this window that this process allowed without Redis before it asked, and has not reported. */
  unreported = 0
  /** Reads among `unreported` that may be counted in Redis, because their report got no response. */
  resent = 0
  /** Whether the report before got no response. The script can tell only of the first one that it arrived. */
  isRetry = false
  /** The end of the client's previous window, if it is known: this one can't have begun before. */
  previousEnd: number | undefined
  /** The processes that have reported their shares of this window, as far as this one knows. */
  reporters: ReadonlySet<string> = NONE
  /**
   * Whether reads had to wait. Only then is it looked up what processes have handed over, which costs a
   * command for each client. Before, their shares are kept back.
   */
  isShort = false
  /** Whether Redis has lost the window, so that all processes have to report before reads are granted. */
  isLost = false
  /** Whether reads of a lost window are granted although a process that seems alive has not reported. */
  ignoresSilent = false
  /** Whether the client has been listed as near its limit in this window. */
  isListed = false
  /** How many reads to request the next time, beside those that wait: none at first, then more each time. */
  nextReserve = 0
  /** The value of `left` at which the next lease is requested early, or NOT_EARLY. */
  askAt = NOT_EARLY
  /** `left` when this process began to count without Redis; undefined while it doesn't. */
  #localFrom: number | undefined
  /** Whether no process has reads of the window left. */
  exhausted = false
  /** Since when reads wait for other processes to return theirs; undefined once any are granted. */
  silentSince: number | undefined
  /** Whether a request for more reads is under way. */
  asking = false
  /** Whether Redis lists this process as one that may hold unspent reads. */
  holds = false
  /** Whether a recall arrived while this process was asking for more reads. */
  recallPending = false
  /** The same with the message that Redis has lost the window. */
  reportPending = false
  /** Resolves the waiting reads. */
  readonly waiting: ((count: Count) => void)[] = []

  constructor (processId: string) {
    this.processId = processId
  }

  isOpen (now: number): boolean {
    return this.id !== NO_WINDOW && now < this.resetAt
  }

  /** Whether this process counts locally, because Redis was unreachable in this window. */
  get isLocal (): boolean {
    return this.#localFrom !== undefined
  }

  get count (): Count {
    return { allowed: true, used: this.total - this.left, resetAt: this.resetAt }
  }

  /** @param max the limit, all of which counts as used, although other processes may hold some */
  refusal (max: number): Count {
    return { allowed: false, used: max, resetAt: this.resetAt }
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
  refuseWaiting (max: number): void {
    for (const resolve of this.waiting.splice(0)) resolve(this.refusal(max))
  }

  /** Reads that this process allowed without Redis and has not reported. */
  get uncounted (): number {
    return this.unreported + (this.#localFrom === undefined ? 0 : this.#localFrom - this.left)
  }

  /**
   * Returns what this process has counted without Redis and not reported yet, as a part of a request.
   *
   * @param handedOver what processes that have stopped have counted for the client
   */
  report (
    handedOver: ReadonlyMap<string, ClientWindow | undefined>,
    { max, timeWindow }: { max: number, timeWindow: number },
    now: number
  ): Pick<LeaseRequest, 'unreported' | 'sincePreviousEnd' | 'restOfWindow' | 'known' | 'handedOver'> {
    const others = [...handedOver.values()].filter((window) => window !== undefined)
    const previousEnd = latest(this.previousEnd, ...others.map((window) => window.previousEnd))
    const ends = others.filter(({ used }) => used > 0).map(({ resetAt }) => resetAt)
    if (now < this.resetAt) ends.push(this.resetAt)
    return {
      unreported: this.uncounted - this.resent,
      // The script counts these only if the process has not reported to the window.
      handedOver: this.resent === 0 ? handedOver : new Map([...handedOver, [this.processId, {
        used: this.resent,
        resetAt: this.resetAt,
        previousEnd: undefined
      }]]),
      ...previousEnd !== undefined && { sincePreviousEnd: Math.max(0, now - previousEnd) },
      // If Redis doesn't know the window, it lets it end when this process has told the client it does.
      ...ends.length > 0 && { restOfWindow: Math.min(timeWindow, Math.max(1, Math.min(...ends) - now)) },
      ...this.isOpen(now) && {
        known: {
          id: this.id,
          total: this.#localFrom === undefined ? this.total : max - this.#localFrom,
          own: this.own
        }
      }
    }
  }

  /** Takes over what Redis answered to a report. */
  apply (response: LeaseResponse, sentAt: number): void {
    const { id, granted, total, own, leftMs, withheld, reporters, isListed = false } = response
    // What is left wasn't granted by Redis in this window: it is from another one, or was counted locally.
    if (this.isLocal || id !== this.id) this.left = 0
    if (withheld) this.reporters = reporters
    if (id !== this.id) this.silentSince = undefined
    if (withheld || id !== this.id) {
      this.isLost = withheld
      this.ignoresSilent = false
      this.isListed = false
    }
    this.isListed ||= isListed
    this.unreported = this.resent = 0
    this.#localFrom = undefined
    this.left += granted
    this.total = total
    this.own = own
    this.id = id
    this.resetAt = sentAt + leftMs
  }

  /** Gives up the unspent reads. Returns how many there are, and the window to which they go back. */
  release (): { reads: number, known: KnownWindow } {
    const { left: reads, total, own, id } = this
    this.left = 0
    this.total -= reads
    this.own -= reads
    this.nextReserve = 0
    this.askAt = NOT_EARLY
    this.holds = false
    return { reads, known: { id, total, own } }
  }

  /** Counts without Redis from now on, beginning with the last known count of the window. */
  countLocally (max: number): void {
    this.own -= this.left
    this.left += max - this.total
    this.total = max
    this.#localFrom = this.left
    this.askAt = NOT_EARLY
    this.holds = false // a recall must not return reads that Redis did not grant
  }
}
