import type { RedisClient } from '../../infra/redis/redis-client.ts'
import { Batcher } from '../../infra/system/batcher.ts'
import { listNearLimit, takeFirstShare } from './first-share.ts'
import { nameOf, runLeases, windowKey, type KnownWindow, type LeaseRequest, type LeaseResponse,
  type WindowOfProcess } from './lease-script.ts'
import type { Members } from './members.ts'
import { firstShareReads } from './shares.ts'
import { Succession, type LocalLimit } from './succession.ts'

/** The most windows in one run of the script. It blocks other Redis commands for less than a millisecond. */
const MAX_BATCH = 100

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
    const announce = async (): Promise<void> => {
      await redis.run(async (redis) => await redis.publish(channel, MEMBERS_CHANGED))
    }
    this.succession = new Succession(redis, members, this.#limits, announce)
    members.onAdoptable = async () => await this.succession.tryToContinue()
    members.onNew = async () => await takeFirstShare(redis, members, this.#limits, this.succession)
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
    window: WindowOfProcess,
    returned: number,
    known: KnownWindow
  ): Promise<void> {
    await this.#requests.load({ ...window, returned, known }).catch(() => {})
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
    this.#limits.get(nameSpace)?.[type as 'recall' | 'lost' | 'end'](key, Number(id), Number(leftMs))
  }

  /** Sends a command for each group of windows that one command may name. A group may fail by itself. */
  #send (requests: readonly LeaseRequest[]): Promise<LeaseResponse>[] {
    const responses = new Map<LeaseRequest, Promise<LeaseResponse>>()
    for (const group of this.redis.groups(requests, (request) => windowKey(nameOf(request)))) {
      const results = runLeases(this.redis, this.#channel, group)
      for (const [index, request] of group.entries()) {
        responses.set(request, results.then((all) => all[index] as LeaseResponse))
      }
    }
    return requests.map((request) => responses.get(request) as Promise<LeaseResponse>)
  }
}

/** The Redis channel for messages about windows. */
export const WINDOW_CHANNEL = 'landfall:windows:2'
