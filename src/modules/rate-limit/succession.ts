import { randomUUID } from 'node:crypto'
import { clock } from '../../infra/system/clock.ts'
import type { RedisClient } from '../../infra/redis/redis-client.ts'
import type { ClientTable, ClientWindow } from './client-table.ts'
import { Handovers } from './handovers.ts'
import { FORMAT, type Departed } from './heartbeats.ts'
import type { WindowOfClient } from './lease-script.ts'
import type { Members } from './members.ts'

/** A limit of this process, as what it shares with other processes sees it. */
export interface LocalLimit {
  /** Length of a window in milliseconds. */
  readonly timeWindow: number
  /** What this process has counted by itself, which another process may continue with. */
  readonly counts: ClientTable
  /** Continues with the counts of another process, which has reported the reads of some clients. */
  adopt(counts: ClientTable, reported: readonly string[]): void
  /** This process begins to use its first share, but not for clients that may have spent the limit. */
  useFirstShare(nearLimit: ReadonlySet<string>): void
  /** Another process recalls unspent reads and shares of a window. */
  recall(key: string, id: number, leftMs: number): void
  /** Redis has lost the window. All processes report what they have allowed in it. */
  lost(key: string, id: number, leftMs: number): void
  /** The window ends at another time than it was known. */
  end(key: string, id: number, leftMs: number): void
}

/** A copy of what a process has handed over, which this process is going to adopt. */
interface Copy {
  readonly departed: Departed
  /** In the order of the limits. */
  readonly counts: readonly ClientTable[]
  /** Shortly before the adoption was first tried: without a response, it may have happened. */
  triedAt?: number
}

/**
 * The end of this process, which hands over its counts, and its beginning, when it may continue as one that
 * has left: with its id, its counts and its share.
 */
export class Succession {
  readonly #redis: RedisClient
  readonly #members: Members
  readonly #handovers: Handovers
  readonly #limits: ReadonlyMap<string, LocalLimit>
  /** Asks all processes for a heartbeat. @throws {RedisAwayError} */
  readonly announce: () => Promise<void>
  #adoption: Promise<void> | undefined
  #copy: Copy | undefined
  #isClosing = false
  /** Where this process leaves its counts: version and id. */
  #handover = ''
  /** Whether another process may continue as this one. */
  #isContinuable = false

  /**
   * @param limits by name space
   * @param announce asks all processes for a heartbeat
   */
  constructor (
    redis: RedisClient,
    members: Members,
    limits: ReadonlyMap<string, LocalLimit>,
    announce: () => Promise<void>
  ) {
    this.#redis = redis
    this.#members = members
    this.#handovers = new Handovers(redis)
    this.#limits = limits
    this.announce = announce
  }

  /**
   * Returns what gracefully shut down processes have counted for a client, by process. Processes whose counts
   * are lost are missing.
   *
   * @throws {RedisAwayError} when Redis is unreachable
   */
  async handedOver (window: WindowOfClient): Promise<ReadonlyMap<string, ClientWindow | undefined>> {
    const found = new Map<string, ClientWindow | undefined>()
    await Promise.all(this.#members.known.departed.map(async (departed) => {
      const counted = await this.#handovers.find(departed.handover, window)
      if (counted === 'adopted') this.#members.known.markContinued(departed)
      else if (counted !== 'lost') found.set(departed.id, counted)
    }))
    return found
  }

  /** Tries to continue as one of the processes that have left. Never rejects. */
  async tryToContinue (): Promise<void> {
    // It fails if Redis is away.
    this.#adoption ??= this.#adoptOne().catch(() => {}).finally(() => {
      this.#adoption = undefined
    })
    await this.#adoption
  }

  /** This process is going to hand over its counts, so it adopts none any more. Never rejects. */
  async stopAdopting (): Promise<void> {
    this.#isClosing = true
    await this.#adoption
    if (this.#handover !== '') return
    const { isContinuable, known, id } = this.#members
    this.#isContinuable = isContinuable
    // The ids of this process may already name what it has adopted, and its first share.
    const name = isContinuable ? randomUUID() : id
    this.#handover = `${known.hasEarlierRelease ? '1' : FORMAT}:${name}`
  }

  /** Notes clients whose reads are reported, for who adopts the counts. @throws {RedisAwayError} */
  async noteReported (nameSpace: string, clients: readonly string[]): Promise<void> {
    if (this.#isContinuable) await this.#handovers.noteReported(this.#handover, nameSpace, clients)
  }

  /** Leaves the counts of a limit to the other processes. @throws {RedisAwayError} */
  async handOver (nameSpace: string, counts: ClientTable): Promise<void> {
    await this.#handovers.store(this.#handover, nameSpace, counts)
  }

  /** Ends the membership of this process after all its counts were handed over. @throws {RedisAwayError} */
  async leave (): Promise<void> {
    await this.#members.leave(this.#handover, this.#isContinuable)
    await this.announce()
  }

  async #adoptOne (): Promise<void> {
    if (this.#mayAdopt) this.#copy ??= await this.#load()
    if (this.#copy === undefined) return
    if (this.#mayAdopt) await this.#adopt(this.#copy)
    // Without a response, the adoption may have happened, and only this copy has the counts.
    else if (this.#copy.triedAt === undefined) this.#copy = undefined
  }

  get #mayAdopt (): boolean {
    const limits = [...this.#limits.values()]
    // What it has counted in its first share is handed over. What it counted without Redis would be lost.
    const mayLeaveCounts = this.#members.mayHaveFirstShare || limits.every(({ counts }) => counts.size === 0)
    return !this.#isClosing && this.#members.isNew && this.#redis.subscribed && limits.length > 0 &&
      mayLeaveCounts
  }

  /** Copies the counts of a process that has left, unless another new process does. */
  async #load (): Promise<Copy | undefined> {
    for (const departed of this.#members.known.departed) {
      const { handover, legacy } = departed
      if (legacy === undefined || !await this.#handovers.claim(handover)) continue
      const counts = await Promise.all([...this.#limits].map(async ([nameSpace, { timeWindow }]) =>
        await this.#handovers.load(handover, nameSpace, timeWindow)
      ))
      const isComplete = counts.every((table) =>
        table !== undefined
      )
      if (isComplete) return { departed, counts }
    }
    return undefined
  }

  async #adopt (copy: Copy): Promise<void> {
    const { departed, counts } = copy
    const members = this.#members
    if (members.mayHaveFirstShare) await this.#handOverFirstShare()
    const triedAt = copy.triedAt ??= clock.now()
    // Who gets no response asks again after the next heartbeat, with the same id and result.
    const reported = await Promise
      .all([...this.#limits.keys()].map(async (nameSpace) =>
        await this.#handovers.adopt(departed.handover, nameSpace, members.id)
      ))
    this.#copy = undefined
    if (!reported.every((clients) => clients !== undefined)) return
    // From now on the others count on it that this process reports.
    const continued = members.continueAs(departed, triedAt)
    for (const [index, limit] of [...this.#limits.values()].entries()) {
      limit.adopt(counts[index] as ClientTable, reported[index] as string[])
    }
    await continued
    await this.announce() // the others stop counting what this process was before
  }

  /** Under its id until now, this process becomes one that has left. */
  async #handOverFirstShare (): Promise<void> {
    this.#members.usesFirstShare = false
    const handover = `${FORMAT}:${this.#members.id}`
    await Promise
      .all([...this.#limits].map(async ([nameSpace, { counts }]) =>
        await this.#handovers.store(handover, nameSpace, counts)
      ))
  }
}
