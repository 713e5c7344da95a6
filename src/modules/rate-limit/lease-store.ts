import type { RedisClient } from '../../infra/redis/redis-client.ts'
import { Batcher } from '../../infra/system/batcher.ts'
import type { ClientWindow } from './client-table.ts'
import { listNearLimit, takeFirstShare } from './first-share.ts'
import { Handovers } from './handovers.ts'
import type { Members } from './members.ts'
import { firstShareReads } from './shares.ts'
import { Succession, type Countable } from './succession.ts'

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

/** The id of a window that hasn't begun. */
export const NO_WINDOW = 0

/** An open window in Redis, as a process knows it. */
export interface KnownWindow {
  readonly id: number
  /** Reads granted to all processes or reported by them, when the process last asked. */
  readonly total: number
  /** The part of it that was granted to this process or reported by it. */
  readonly own: number
}

/** A process's request for a lease in one window, with its own counts. Numbers are reads, by default 0. */
export interface LeaseRequest extends WindowOfClient {
  /** The process to which reads are granted; by default this one. */
  readonly processId?: string
  /** Time until the end of the window that this process has counted locally, in milliseconds. */
  readonly restOfWindow?: number
  /** Those that wait for a response. They are spent when granted. */
  readonly needed?: number
  /** Those wanted beyond the waiting ones, so that later reads need no request. */
  readonly reserve?: number
  /** Unspent ones that the process keeps. */
  readonly held?: number
  /** Unspent ones that it returns to the window that it knows. */
  readonly returned?: number
  /** Those that it allowed without Redis, and has not reported yet. */
  readonly unreported?: number
  /** Time since the end of the client's previous window, in milliseconds; undefined if it is not known. */
  readonly sincePreviousEnd?: number
  /** Those that other processes may have allowed without Redis. They are not granted. */
  readonly openShares?: number
  /** Those among `openShares` in first shares. */
  readonly firstReads?: number
  /** The open window as this process knows it: if Redis has lost it, it continues from there. */
  readonly known?: KnownWindow
  /** Whether the client has been listed as near its limit in this window. */
  readonly isListed?: boolean
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
  /** Identifies the window. NO_WINDOW if there is none: a request without reads doesn't begin one. */
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
export interface LocalLimit extends WindowMessages, Countable {
  /** This process begins to use its first share, but not for clients that may have spent the limit. */
  readonly useFirstShare: (nearLimit: ReadonlySet<string>) => void
}

/** Type, time left in milliseconds, id of the window, name space, key. */
const MESSAGE = /^(recall|lost|end) (\d+) (\d+) (\S+) (.*)$/s
/**
 * Asks all processes for a heartbeat. Sent when one has shut down gracefully, or goes on as another one, or
 * got a first share. The text is that of earlier releases.
 */
const MEMBERS_CHANGED = 'left'

/** Leases in Redis. Requests of one turn of the event loop share a command. */
export class LeaseStore {
  /** The processes that share the limits. */
  readonly members: Members
  /** What this process takes over when it starts, and leaves when it stops. */
  readonly succession: Succession
  readonly redis: RedisClient
  readonly #channel: string
  readonly #handovers: Handovers
  /** By name space. */
  readonly #limits = new Map<string, LocalLimit>()
  readonly #asking = new Set<Promise<unknown>>()
  readonly #requests = new Batcher<LeaseRequest, LeaseResponse>({
    run: async (requests) => this.#send(requests),
    maxKeys: MAX_BATCH,
    maxRunning: Infinity
  })

  constructor (redis: RedisClient, channel: string, members: Members) {
    this.redis = redis
    this.#channel = channel
    this.members = members
    this.#handovers = new Handovers(redis)
    const announce = async (): Promise<void> => {
      await redis.run(async (redis) => await redis.publish(channel, MEMBERS_CHANGED))
    }
    this.succession = new Succession(redis, members, this.#handovers, this.#limits, announce)
    members.onAdoptable = async () => await this.succession.tryToContinue()
    members.onNew = async () =>
      await takeFirstShare(
        redis,
        members,
        this.#limits,
        announce,
        async () => await this.succession.tryToContinue()
      )
    members.settled = async () => {
      await Promise.allSettled(this.#asking)
    }
    redis.on('message', (channel, message) => {
      if (channel === this.#channel) this.#hear(message)
    })
  }

  /** Passes on messages about windows, and the counts of a process that this one continues. */
  register (nameSpace: string, limit: LocalLimit): void {
    this.#limits.set(nameSpace, limit)
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
    returned: number,
    known: KnownWindow
  ): Promise<void> {
    await this.#requests.load({ ...window, returned, known }).catch(() => {})
  }

  /**
   * Returns what gracefully shut down processes have counted for a client, by process. Processes whose counts
   * are lost are missing.
   *
   * @throws {RedisAwayError} when Redis is unreachable
   */
  async handedOver (client: WindowOfClient): Promise<ReadonlyMap<string, ClientWindow | undefined>> {
    const found = new Map<string, ClientWindow | undefined>()
    await Promise.all(this.members.known.departed.map(async (departed) => {
      const window = await this.#handovers.find(departed.handover, client)
      if (window === 'adopted') this.members.known.markContinued(departed)
      else if (window !== 'lost') found.set(departed.id, window)
    }))
    return found
  }

  /** Lists the client before its reads are allowed, if first shares may no longer fit into its limit. */
  async #ask (request: LeaseRequest): Promise<LeaseResponse> {
    const response = await this.send(request)
    const { max, nameSpace, key, openShares = 0, firstReads = 0, isListed = false } = request
    const isNear = response.total + openShares - firstReads > max - firstShareReads(max)
    if (isListed || !isNear) return response
    await listNearLimit(this.redis, nameSpace, key)
    return { ...response, isListed: true }
  }

  /** Sends a request together with others. */
  protected async send (request: LeaseRequest): Promise<LeaseResponse> {
    return await this.#requests.load(request)
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

  /** Sends a command for each group of windows that one command may name. A group may fail by itself. */
  #send (requests: readonly LeaseRequest[]): Promise<LeaseResponse>[] {
    const responses = new Map<LeaseRequest, Promise<LeaseResponse>>()
    for (const group of this.redis.groups(requests, (request) => windowKey(nameOf(request)))) {
      const results = this.#sendGroup(group)
      for (const [index, request] of group.entries()) {
        responses.set(request, results.then((all) => all[index] as LeaseResponse))
      }
    }
    return requests.map((request) => responses.get(request) as Promise<LeaseResponse>)
  }

  async #sendGroup (requests: readonly LeaseRequest[]): Promise<LeaseResponse[]> {
    const keys = requests.map((request) => windowKey(nameOf(request)))
    const values = requests.flatMap((request) => [
      nameOf(request),
      request.max,
      request.restOfWindow ?? request.timeWindow,
      request.needed ?? 0,
      request.reserve ?? 0,
      request.held ?? 0,
      request.unreported ?? 0,
      request.sincePreviousEnd ?? '',
      request.openShares ?? 0,
      request.returned ?? 0,
      request.known?.id ?? NO_WINDOW,
      request.timeWindow,
      request.known?.total ?? 0,
      request.known?.own ?? 0,
      request.knowsLoss === true ? 1 : 0,
      request.processId ?? this.members.id,
      [...request.handedOver ?? []].map(([processId, window]) => `${processId}=${window?.used ?? 0}`)
        .join(' ')
    ])
    const results = await this.redis.run(async (redis) =>
      await redis.landfallLeases(keys.length, ...keys, this.#channel, ...values)
    )
    return results.map(([granted, total, own, leftMs, id, withheld, others, reporters]) => ({
      granted,
      total,
      own,
      leftMs,
      id,
      withheld: withheld === 1,
      others,
      reporters: new Set(reporters.split(' '))
    }))
  }
}

const nameOf = ({ nameSpace, key }: LeaseRequest): string => `${nameSpace} ${key}`

/** The name of a window in Redis. Its field `g` has the reads that processes have leased or reported. */
export const windowKey = (name: string): string => `landfall:window:2:${name}`

/** The Redis channel for messages about windows. */
export const WINDOW_CHANNEL = 'landfall:windows:2'
