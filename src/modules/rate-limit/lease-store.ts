import { randomUUID } from 'node:crypto'
import type { RedisClient } from '../../infra/redis/redis-client.ts'
import { Batcher } from '../../infra/system/batcher.ts'
import type { ClientTable, ClientWindow } from './client-table.ts'
import { Handovers } from './handovers.ts'
import { RESULTS } from './lease-script.ts'
import { firstShareReads, FORMAT, type Departed } from './heartbeats.ts'
import type { Members } from './members.ts'
import { listNearLimit, takeFirstShare } from './first-share.ts'
import { clock } from '../../infra/system/clock.ts'

/** The most windows in one run of the script. It blocks other Redis commands for less than a millisecond. */
const MAX_BATCH = 100

/** Names a client's window. */
export interface WindowOfClient {
  /** The name space of the limit. */
  readonly nameSpace: string
  /** The key of the client. */
  readonly key: string
  readonly max: number
  /** Length of a window in milliseconds. */
  readonly timeWindow: number
}

/** An open window in Redis, as a process knows it. */
export interface KnownWindow {
  readonly id: number
  /** Reads granted to all processes or reported by them, when the process last asked. */
  readonly total: number
  /** The part of it that was granted to this process or reported by it. */
  readonly own: number
}

/** A process's request for a lease in one window, with its own counts. */
export interface LeaseRequest extends WindowOfClient {
  /** The process to which reads are granted; by default this one. */
  readonly processId?: string
  /** Time until the end of the window that this process has counted locally, in milliseconds. */
  readonly restOfWindow?: number
  /** Reads that wait for a response. They are spent when granted. */
  readonly needed: number
  /** Reads wanted beyond those that wait, so that later reads need no request. */
  readonly reserve: number
  /** Unspent reads that the process keeps. */
  readonly held: number
  /** Reads that it allowed without Redis, and that it has not reported yet. */
  readonly unreported: number
  /** Time since the end of the client's previous window, in milliseconds; undefined if it is not known. */
  readonly sincePreviousEnd?: number
  /** Reads that other processes may have allowed without Redis. They are not granted. */
  readonly openShares: number
  /** The open window as this process knows it: if Redis has lost it, it continues from there. */
  readonly known?: KnownWindow
  /** The reads among them in first shares. */
  readonly firstReads: number
  /** Whether the client has been listed as near its limit in this window. */
  readonly isListed: boolean
  /** Whether `openShares` has what processes may hold of a window that Redis has lost. */
  readonly knowsLoss?: boolean
  /** Reads allowed by processes that have shut down gracefully. They count once, whoever reports them. */
  readonly handedOver?: ReadonlyMap<string, ClientWindow | undefined>
}

export interface LeaseResponse {
  readonly granted: number
  /** Reads granted to all processes in the window and not returned, and those that they have reported. */
  readonly total: number
  /** The part of it that was granted to this process or reported by it. */
  readonly own: number
  /** Time until the window ends, in milliseconds. */
  readonly leftMs: number
  /** Identifies the window. 0 if there is none: a request without reads doesn't begin one. */
  readonly id: number
  /** Whether nothing was granted because Redis has lost the window. All processes are asked to report. */
  readonly withheld: boolean
  /** Whether the client was listed as near its limit, because of this request. */
  readonly isListed?: boolean
  /** If reads have to wait: the number of other processes that may hold unspent reads. They are recalled. */
  readonly others: number
  /** If reads have to wait: the processes that have reported their reads in this window. */
  readonly reporters: ReadonlySet<string>
}

/** Messages about a window, from any process. */
export interface WindowMessages {
  /** Unspent reads and shares are recalled. */
  recall: (key: string, id: number, leftMs: number) => void
  /** Redis has lost the window. All processes report what they have allowed in it. */
  lost: (key: string, id: number, leftMs: number) => void
  /** The window ends at another time than it was known. */
  end: (key: string, id: number, leftMs: number) => void
}

/** A limit of this process. */
export interface LocalLimit extends WindowMessages {
  /** What this process has counted by itself. */
  readonly counts: () => ClientTable
  /** This process begins to use its first share, but not for clients that may have spent the limit. */
  useFirstShare: (nearLimit: ReadonlySet<string>) => void
  /** Continues with the counts of another process, which has reported the reads of some clients. */
  adopt: (counts: ClientTable, reported: readonly string[]) => void
}

interface Question {
  readonly request: LeaseRequest
  /** Unspent reads of the known window that are returned. */
  readonly returned: number
}

/** Type, time left in milliseconds, id of the window, name space, key. */
const MESSAGE = /^(recall|lost|end) (\d+) (\d+) (\S+) (.*)$/s
/**
 * Asks all processes for a heartbeat. Sent when one has shut down gracefully, or got a first share. The text
 * is that of earlier releases.
 */
const MEMBERS_CHANGED = 'left'
/** Leases in Redis. Requests of one turn of the event loop share a command. */
export class LeaseStore {
  /** The processes that share the limits. */
  readonly members: Members
  readonly #redis: RedisClient
  readonly #channel: string
  readonly #handovers: Handovers
  /** Where this process leaves its counts: version and id. */
  #handover = ''
  readonly #limits = new Map<string, LocalLimit & { timeWindow: number }>()
  readonly #asking = new Set<Promise<unknown>>()
  #adoption: Promise<void> | undefined
  #isClosing = false
  #isContinuable = false
  readonly #questions = new Batcher<Question, LeaseResponse>({
    run: async (questions) => this.#send(questions),
    maxKeys: MAX_BATCH,
    maxRunning: Infinity
  })

  constructor (redis: RedisClient, channel: string, members: Members) {
    this.#redis = redis
    this.#channel = channel
    this.members = members
    this.#handovers = new Handovers(redis)
    members.onAdoptable = async () => await this.#adoptOnce()
    members.onNew = async () =>
      await takeFirstShare(redis, members, {
        limits: this.#limits,
        announce: async () => await this.#announceMembers(),
        adopted: async () => await this.#adoption
      })
    members.settled = async () => {
      await Promise.allSettled(this.#asking)
    }
    redis.on('message', (channel, message) => {
      if (channel === this.#channel) this.#hear(message)
    })
  }

  /** Whether Redis was reachable when it was last used. */
  get reachable (): boolean {
    return this.#redis.reachable
  }

  /** Whether this process receives recalls. Only then may it lease a reserve. */
  get hearsRecalls (): boolean {
    return this.#redis.subscribed
  }

  /**
   * Requests a lease. A client near its limit is listed first, for processes that start.
   *
   * @throws {RedisAwayError} when Redis is unreachable
   */
  async ask (request: LeaseRequest): Promise<LeaseResponse> {
    const response = this.#ask(request)
    this.#asking.add(response)
    try {
      return await response
    } finally {
      this.#asking.delete(response)
    }
  }

  /** Returns unspent reads of a known window. Never rejects; after a failure they are lost. */
  async giveBack (
    window: WindowOfClient & { processId?: string },
    reads: number,
    known: KnownWindow
  ): Promise<void> {
    const nothing = {
      needed: 0,
      reserve: 0,
      held: 0,
      unreported: 0,
      openShares: 0,
      firstReads: 0,
      isListed: true
    }
    const request = { ...window, ...nothing, known }
    await this.#questions.load({ request, returned: reads }).catch(() => {})
  }

  /** Passes on messages about windows, and the counts of a process that this one continues. */
  register (nameSpace: string, timeWindow: number, limit: LocalLimit): void {
    this.#limits.set(nameSpace, { ...limit, timeWindow })
  }

  /**
   * Returns what gracefully shut down processes have counted for a client, by process. Processes whose counts
   * are lost are missing.
   *
   * @throws {RedisAwayError} when Redis is unreachable
   */
  async handedOver (client: WindowOfClient): Promise<ReadonlyMap<string, ClientWindow | undefined>> {
    const found = new Map<string, ClientWindow | undefined>()
    await Promise.all(this.members.departed.map(async (departed) => {
      const window = await this.#handovers.find(departed.handover, client)
      if (window === 'adopted') this.members.markContinued(departed)
      else if (window !== 'lost') found.set(departed.id, window)
    }))
    return found
  }

  /** This process is going to hand over its counts, so it adopts none any more. Never rejects. */
  async stopAdopting (): Promise<void> {
    this.#isClosing = true
    await this.#adoption
    if (this.#handover !== '') return
    const { isContinuable, isAmongCurrent, id } = this.members
    this.#isContinuable = isContinuable
    // The ids of this process may already name what it has adopted, and its first share.
    const name = isContinuable ? randomUUID() : id
    this.#handover = `${isAmongCurrent ? FORMAT : '1'}:${name}`
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
    await this.members.leave(this.#handover, this.#isContinuable)
    await this.#announceMembers()
  }

  async #announceMembers (): Promise<void> {
    await this.#redis.run(async (redis) => await redis.publish(this.#channel, MEMBERS_CHANGED))
  }

  /** Lists the client before its reads are allowed, if first shares may no longer fit into its limit. */
  async #ask (request: LeaseRequest): Promise<LeaseResponse> {
    const response = await this.send(request)
    const { max, nameSpace, key, openShares, firstReads, isListed } = request
    const isNear = response.total + openShares - firstReads > max - firstShareReads(max)
    if (isListed || !isNear) return response
    await listNearLimit(this.#redis, nameSpace, key)
    return { ...response, isListed: true }
  }

  /** Sends a request together with others. */
  protected async send (request: LeaseRequest): Promise<LeaseResponse> {
    return await this.#questions.load({ request, returned: 0 })
  }

  #hear (message: string): void {
    if (message === MEMBERS_CHANGED) {
      this.members.beat()
      return
    }
    const [, type, leftMs, id, nameSpace = '', key = ''] = MESSAGE.exec(message) ?? []
    if (type === undefined) return
    this.#limits.get(nameSpace)?.[type as keyof WindowMessages](key, Number(id), Number(leftMs))
  }

  /** Tries to continue as one of the processes that have left. Never rejects. */
  async #adoptOnce (): Promise<void> {
    this.#adoption ??= (async () => {
      for (const departed of this.members.departed) {
        if (departed.heartbeat !== undefined && await this.#adopt(departed)) break
      }
    })().catch(() => {}).finally(() => { // Redis is away: this process stays a new one
      this.#adoption = undefined
    })
    await this.#adoption
  }

  /** Continues as a process that has left: with its id, its counts and its share. */
  async #adopt (departed: Departed): Promise<boolean> {
    const { members } = this
    const limits = [...this.#limits]
    const { handover } = departed
    const { usesFirstShare } = members
    const canContinue = (): boolean =>
      members.isNew && this.#redis.subscribed &&
      (usesFirstShare || limits.every(([, { counts }]) => counts().size === 0))
    const mayAdopt = (): boolean => limits.length > 0 && !this.#isClosing && canContinue()
    if (!mayAdopt() || !await this.#handovers.reserve(handover)) return false
    const counts = await Promise
      .all(limits.map(async ([nameSpace, { timeWindow }]) =>
        await this.#handovers.load(handover, nameSpace, timeWindow)
      ))
    if (!counts.every((table) => table !== undefined) || !mayAdopt()) return false
    if (usesFirstShare) await this.#handOverFirstShare()
    else members.giveUpFirstShare()
    const now = clock.now()
    const reported = await Promise
      .all(limits.map(async ([nameSpace]) => await this.#handovers.adopt(handover, nameSpace)))
    // From now on the others count on it that this process reports. If it can't, they keep the share back.
    if (!reported.every((clients) => clients !== undefined) || !canContinue()) return false
    const continued = members.continueAs(departed, now)
    for (const [index, [, limit]] of limits.entries()) {
      limit.adopt(counts[index] as ClientTable, reported[index] as string[])
    }
    await continued
    return true
  }

  /** Under its id until now, this process becomes one that has left. */
  async #handOverFirstShare (): Promise<void> {
    this.members.stopFirstShare()
    const handover = `${FORMAT}:${this.members.id}`
    await Promise
      .all([...this.#limits].map(async ([nameSpace, { counts }]) =>
        await this.#handovers.store(handover, nameSpace, counts())
      ))
  }

  /** Sends a command for each group of windows that one command may name. A group may fail by itself. */
  #send (questions: readonly Question[]): Promise<LeaseResponse>[] {
    const responses = new Map<Question, Promise<LeaseResponse>>()
    for (const group of this.#redis.groups(questions, ({ request }) => windowKey(nameOf(request)))) {
      const results = this.#sendGroup(group)
      for (const [index, question] of group.entries()) {
        responses.set(question, results.then((all) => responseOf(all, index)))
      }
    }
    return questions.map((question) => responses.get(question) as Promise<LeaseResponse>)
  }

  async #sendGroup (questions: readonly Question[]): Promise<(number | string)[]> {
    const keys: string[] = []
    const values: (string | number)[] = [this.#channel]
    for (const { request, returned } of questions) {
      const name = nameOf(request)
      keys.push(windowKey(name))
      values.push(
        name,
        request.max,
        request.restOfWindow ?? request.timeWindow,
        request.needed,
        request.reserve,
        request.held,
        request.unreported,
        request.sincePreviousEnd ?? -1,
        request.openShares,
        returned,
        request.known?.id ?? 0,
        request.timeWindow,
        request.known?.total ?? 0,
        request.known?.own ?? 0,
        request.knowsLoss === true ? 1 : 0,
        request.processId ?? this.members.id,
        [...request.handedOver ?? []].map(([processId, window]) => `${processId}=${window?.used ?? 0}`)
          .join(' ')
      )
    }
    return await this.#redis.run(async (redis) => await redis.landfallLeases(keys.length, ...keys, ...values))
  }
}

/** Returns the response for the window with an index in the script's call. */
function responseOf (results: readonly (number | string)[], index: number): LeaseResponse {
  const [granted, total, own, leftMs, id, withheld, others, reporters] = results.slice(
    index * RESULTS,
    (index + 1) * RESULTS
  ) as [number, number, number, number, number, number, number, string]
  return {
    granted,
    total,
    own,
    leftMs,
    id,
    withheld: withheld === 1,
    others,
    reporters: new Set(reporters.split(' '))
  }
}

const nameOf = ({ nameSpace, key }: LeaseRequest): string => `${nameSpace} ${key}`

/** The name of a window in Redis. Its field `g` has the reads that processes have leased or reported. */
export const windowKey = (name: string): string => `landfall:window:2:${name}`

/** The Redis channel for messages about windows. */
export const WINDOW_CHANNEL = 'landfall:windows:2'
