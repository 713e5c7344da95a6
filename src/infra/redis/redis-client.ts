import { EventEmitter } from 'node:events'
import { ReplyError, type Redis } from 'ioredis'
import type { FastifyBaseLogger } from 'fastify'
import { clock } from '../system/clock.ts'
import type { QueryHook } from '../telemetry/query-hook.ts'
import { createCommandConnection, createSubscriberConnection, type RedisScripts } from './connections.ts'
import { Subscriber, type SubscriberEvents } from './subscriber.ts'
import { withTimeLimit } from './time-limit.ts'

// A circuit breaker in front of ioredis: docs/adr/0008-redis-client-and-breaker.md

/** Time limit of a command. A slower Redis counts as unavailable. */
const COMMAND_TIMEOUT_MS = 200
/** Interval between two probes while the breaker is open, and while it is closed. */
const OPEN_PROBE_INTERVAL_MS = 250
const CLOSED_PROBE_INTERVAL_MS = 500
/** Minimum interval between two reconnects that look for a new primary. */
const FAILOVER_INTERVAL_MS = 1000
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
 * One connection for commands and one for messages. The breaker opens when a command fails or times out, and
 * closes when a probe succeeds, so that an outage causes one timeout, not one per request.
 */
export class RedisClient extends EventEmitter<RedisClientEvents> {
  readonly commands: Redis
  readonly #subscriber: Subscriber
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
  #failedOverAt = -Infinity
  /** The last error of ioredis, because its 'close' event has no reason. */
  #lastError: Error | undefined
  readonly #loggedReasons = new Set<string | undefined>()

  constructor (url: string, { channels, scripts, queryHook }: RedisClientOptions, log: FastifyBaseLogger) {
    super()
    this.#log = log
    this.#queryHook = queryHook
    this.commands = createCommandConnection(url, scripts)
    this.commands.on('error', (error) => {
      this.#lastError = error
    })
    this.commands.on('close', () => this.#openBreaker(this.#lastError ?? new Error('connection closed')))
    this.commands.on('ready', () => this.#scheduleProbe(0))

    this.#subscriber = new Subscriber(createSubscriberConnection(url), channels)
    this.#subscriber.on('subscribed', () => this.emit('subscribed'))
    this.#subscriber.on('unsubscribed', () => this.emit('unsubscribed'))
    this.#subscriber.on('message', (channel, payload) => this.emit('message', channel, payload))

    // A process that sends no commands needs these probes to notice an outage, during which it has to check
    // cached documents more often.
    this.#probeInterval = setInterval(() => {
      if (this.reachable) this.#probe()
    }, CLOSED_PROBE_INTERVAL_MS)
    this.#probeInterval.unref()
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
    return this.#subscriber.isSubscribed
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
    this.commands.connect().catch(() => {})
    this.#subscriber.connect()
    await withTimeLimit(ready, START_TIMEOUT_MS).catch(() => {})
  }

  /**
   * Runs a command.
   *
   * @throws {RedisAwayError} if the command fails or times out; at once while the breaker is open
   */
  async run<T> (command: (connection: Redis) => Promise<T>): Promise<T> {
    if (!this.reachable) throw new RedisAwayError()
    const endQuery = this.#queryHook?.('')
    try {
      const answer = await withTimeLimit(command(this.commands), COMMAND_TIMEOUT_MS)
      endQuery?.()
      return answer
    } catch (error) {
      endQuery?.(error)
      this.#openBreaker(error)
      throw new RedisAwayError(error)
    }
  }

  /** Splits items into groups whose keys one command may name: a single group, because Redis has one node. */
  groups<Item> (items: readonly Item[], _keyOf: (item: Item) => string): (readonly Item[])[] {
    return [items]
  }

  /** Closes both connections. */
  close (): void {
    clearInterval(this.#probeInterval)
    clearTimeout(this.#probeTimer)
    this.removeAllListeners()
    this.#isClosed = true
    this.#isBreakerOpen = true
    this.commands.disconnect()
    this.#subscriber.close()
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
      // A write, because a Redis that is full, or is a read-only replica, still answers PING.
      await withTimeLimit(this.commands.set('landfall:probe', '1', 'PX', 1000), COMMAND_TIMEOUT_MS)
    } catch (error) {
      this.#openBreaker(error)
      // Without an answer, the connection may be dead although its status is 'ready'.
      if (!(error instanceof ReplyError)) this.commands.disconnect(true)
      else if ((error as Error).message.startsWith('READONLY')) this.#findPrimary()
      return
    }
    if (this.#isBreakerOpen) this.#closeBreaker()
  }

  #closeBreaker (): void {
    this.#isBreakerOpen = false
    this.#backSince = clock.now()
    this.#loggedReasons.clear()
    this.#lastError = undefined
    this.#log.info('Redis is available again')
    this.emit('reachable')
  }

  /** Reconnects. This server has become a replica, and the host name may now lead to the new primary. */
  #findPrimary (): void {
    if (clock.now() - this.#failedOverAt < FAILOVER_INTERVAL_MS) return
    this.#failedOverAt = clock.now()
    this.commands.disconnect(true)
    this.#subscriber.reconnect()
  }
}
