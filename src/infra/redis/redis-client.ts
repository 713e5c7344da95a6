import { EventEmitter } from 'node:events'
import type { FastifyBaseLogger } from 'fastify'
import { clock } from '../system/clock.ts'
import type { QueryHook } from '../telemetry/query-hooks.ts'
import { COMMAND_TIMEOUT_MS, type Backend } from './backend.ts'
import { withTimeLimit } from '../system/time-limit.ts'
import { isCluster, isHalfMoved, type RedisCommands, type RedisScripts } from './connections.ts'
import { ServerCluster } from './server-cluster.ts'
import { SingleServer } from './single-server.ts'
import type { SubscriberEvents } from './subscriber.ts'

// A circuit breaker in front of ioredis: docs/adr/0008-redis-client-and-breaker.md

/** Interval between two probes while the breaker is open, and while it is closed. */
const OPEN_PROBE_INTERVAL_MS = 250
const CLOSED_PROBE_INTERVAL_MS = 500
/** How long the start of the service waits for Redis. */
const START_TIMEOUT_MS = 1000

export interface RedisClientOptions {
  /** Channels to subscribe to. */
  readonly channels: readonly string[]
  readonly scripts: RedisScripts
  /** Called for each command or pipeline, not for probes. */
  readonly queryHook?: QueryHook | undefined
}

/** Redis is unavailable. Callers continue without it, so API clients never see this error. */
export class RedisAwayError extends Error {
  override readonly name = 'RedisAwayError'

  constructor (cause?: unknown) {
    super('Redis cannot be reached', { cause })
  }
}

interface RedisClientEvents extends SubscriberEvents {
  /** Commands work again after an outage. */
  reachable: []
  /** Commands fail from now on. */
  unreachable: []
}

/**
 * One connection for commands and one for messages, or to each master of a cluster. The breaker opens when a
 * command fails or times out, and closes when a probe succeeds, so that an outage causes one timeout, not one
 * per request. A cluster has one breaker: a write whose master is away can't be announced either.
 */
export class RedisClient extends EventEmitter<RedisClientEvents> {
  readonly #backend: Backend
  readonly #log: FastifyBaseLogger
  readonly #queryHook: QueryHook | undefined
  /** Probes while the breaker is closed. */
  readonly #probeInterval: NodeJS.Timeout
  /** Starts one probe while the breaker is open, or after 'ready'. */
  #probeTimer: NodeJS.Timeout | undefined
  #isBreakerOpen = false
  #isClosed = false
  #outages = 0
  #backSince = -Infinity
  readonly #loggedReasons = new Set<string | undefined>()

  constructor (url: string, { channels, scripts, queryHook }: RedisClientOptions, log: FastifyBaseLogger) {
    super()
    this.#log = log
    this.#queryHook = queryHook
    this.#backend = isCluster(url) ? new ServerCluster(url, channels, scripts)
      : new SingleServer(url, channels, scripts)
    this.#backend.on('ready', () => this.#scheduleProbe(0))
    this.#backend.on('lost', (reason) => this.#openBreaker(reason))
    this.#backend.on('subscribed', () => this.emit('subscribed'))
    this.#backend.on('unsubscribed', () => this.emit('unsubscribed'))
    this.#backend.on('message', (channel, payload) => this.emit('message', channel, payload))

    // A process that sends no commands needs these probes to notice an outage, during which it has to check
    // cached documents more often.
    this.#probeInterval = setInterval(() => {
      if (this.reachable) this.#probe()
    }, CLOSED_PROBE_INTERVAL_MS)
    this.#probeInterval.unref()
  }

  /** The connection that runs commands. It has no time limit and no breaker. */
  get commands (): RedisCommands {
    return this.#backend.commands
  }

  /** Whether Redis is connected and the breaker is closed. */
  get reachable (): boolean {
    return !this.#isBreakerOpen && this.commands.status === 'ready'
  }

  /** How often the breaker has opened, including a first connection that failed. */
  get outages (): number {
    return this.#outages
  }

  /** When the last outage ended, in milliseconds of the process clock; -Infinity before the first one. */
  get backSince (): number {
    return this.#backSince
  }

  /** Whether the process receives messages of other replicas. */
  get subscribed (): boolean {
    return this.#backend.isSubscribed
  }

  /** Connects. Waits for at most a second, so that the first request can already use Redis. */
  async start (): Promise<void> {
    const ready = Promise.all([
      new Promise<void>((resolve) => {
        this.commands.once('ready', resolve)
      }),
      new Promise<void>((resolve) => {
        this.once('subscribed', resolve)
      })
    ])
    this.#backend.connect()
    await withTimeLimit(ready, START_TIMEOUT_MS).catch(() => {})
  }

  /**
   * Runs a command.
   *
   * @throws {RedisAwayError} if the command fails or times out; at once while the breaker is open
   */
  async run<T> (command: (connection: RedisCommands) => Promise<T>): Promise<T> {
    if (!this.reachable) throw new RedisAwayError()
    const endQuery = this.#queryHook?.('')
    this.#backend.gatherWrites()
    try {
      const response = await withTimeLimit(command(this.commands), COMMAND_TIMEOUT_MS)
      endQuery?.()
      return response
    } catch (error) {
      endQuery?.(error)
      // Until all keys of the command have moved to another node, other commands go on.
      if (!isHalfMoved(error)) this.#openBreaker(error)
      throw new RedisAwayError(error)
    }
  }

  /**
   * Splits items into groups whose keys one command may name: in a cluster the items of one slot, otherwise
   * all items.
   */
  groups<Item> (items: readonly Item[], keyOf: (item: Item) => string): (readonly Item[])[] {
    return this.#backend.groups(items, keyOf)
  }

  /** Closes all connections. */
  close (): void {
    clearInterval(this.#probeInterval)
    clearTimeout(this.#probeTimer)
    this.removeAllListeners()
    this.#isClosed = true
    this.#isBreakerOpen = true
    this.#backend.close()
  }

  #openBreaker (error: unknown): void {
    if (this.#isClosed) return
    this.#logOutage(error)
    const wasOpen = this.#isBreakerOpen
    this.#isBreakerOpen = true
    this.#scheduleProbe(OPEN_PROBE_INTERVAL_MS)
    if (wasOpen) return
    this.#outages++
    this.emit('unreachable')
  }

  /** Logs each reason once per outage: a lost connection may be followed by a refused password. */
  #logOutage (error: unknown): void {
    const reason = error instanceof Error ? error.message || (error as NodeJS.ErrnoException).code
      : String(error)
    if (this.#loggedReasons.has(reason)) return
    this.#loggedReasons.add(reason)
    this.#log.warn(
      { reason },
      'Redis is unavailable; each process counts limits and caches documents separately'
    )
  }

  #scheduleProbe (delayMs: number): void {
    clearTimeout(this.#probeTimer)
    this.#probeTimer = setTimeout(() => {
      this.#probe()
    }, delayMs)
    this.#probeTimer.unref()
  }

  async #probe (): Promise<void> {
    if (this.commands.status !== 'ready') return // the next 'ready' event starts a probe
    try {
      await this.#backend.probe()
    } catch (error) {
      this.#openBreaker(error)
      return
    }
    if (this.#isBreakerOpen) this.#closeBreaker()
  }

  #closeBreaker (): void {
    this.#isBreakerOpen = false
    this.#backSince = clock.now()
    this.#loggedReasons.clear()
    this.#log.info('Redis is available again')
    this.emit('reachable')
  }
}
