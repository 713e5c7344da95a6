import { EventEmitter } from 'node:events'
import fastifyRedis from '@fastify/redis'
import fp from 'fastify-plugin'
import { Redis, ReplyError } from 'ioredis'
import type { FastifyBaseLogger } from 'fastify'
import { Histogram, type Registry } from 'prom-client'
import { clock } from '../clock.ts'
import { observedBy, type Observer } from '../observer.ts'
import { counterOf, gaugeOf } from './metrics.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Redis with a breaker before it; undefined when REDIS_URL is not set. */
    shared: SharedRedis | undefined
  }
}

/** No command may cost a reader more than this; a Redis that is slower counts as away. */
const COMMAND_TIMEOUT_MS = 200
const PROBE_INTERVAL_MS = 250
/** From one look for another primary to the next. */
const LOOK_ELSEWHERE_MS = 1000
/** A heartbeat without an answer and the channel counts as lost: within a second, where 1.5 s are promised. */
const HEARTBEAT_INTERVAL_MS = 500
const HEARTBEAT_TIMEOUT_MS = 500
/** A connection that is there but says nothing gets this long for its greeting, and for subscribing. */
const GREETING_TIMEOUT_MS = 500
/** A connection that is given up gets this long to end in an orderly way; ioredis would wait for 2 s before it begins a new one. */
const DISCONNECT_TIMEOUT_MS = 50
/** In how many parts an answer is waited for, see `inTime`. */
const SLICES = 4
/** How long the start waits for a Redis that may just be slow to answer. */
const START_WAIT_MS = 1000

/** What a SharedRedis is used for. */
export interface SharedRedisUse {
  /** Channels that are listened to. */
  readonly channels: readonly string[]
  /** Scripts by the name of the command that runs each. A command defined later could be missing in a pipeline that is already being filled, which ends the process. */
  readonly scripts: Readonly<Record<string, { readonly numberOfKeys?: number, readonly lua: string }>>
  /** Told of each command, or of several that go together; not of the probes. */
  readonly observer?: Observer | undefined
}

/** Redis can't be used now. Callers go on without it; it never reaches a client. */
export class RedisAwayError extends Error {
  constructor (cause?: unknown) {
    super('Redis can not be reached', { cause })
    this.name = 'RedisAwayError'
  }
}

interface SharedRedisEvents {
  /** Commands work again after an outage. */
  reachable: []
  /** Commands don't work from now on. */
  unreachable: []
  /** Messages arrive from now on; some may have been missed before. */
  subscribed: []
  /** Messages may be missed from now on. */
  unsubscribed: []
  message: [channel: string, payload: string]
}

/**
 * Two connections, one for commands and one for messages, and what is known about them. The breaker opens with the
 * first command that fails or times out and closes when a probe succeeds, so that an outage costs one time-out and not
 * one for every request. It is probed in good times too: a process that has nothing to ask must know as well whether
 * what others write still reaches it.
 */
export class SharedRedis extends EventEmitter<SharedRedisEvents> {
  readonly commands: Redis
  readonly #subscriber: Redis
  readonly #log: FastifyBaseLogger
  readonly #channels: readonly string[]
  readonly #observer: Observer | undefined
  #broken = false
  #outages = 0
  #backSince = -Infinity
  readonly #saidReasons = new Set<string | undefined>()
  #closed = false
  /** What ioredis said last; a closed connection alone doesn't tell why. */
  #lastError: Error | undefined
  #subscribed = false
  #probe: NodeJS.Timeout | undefined
  readonly #heartbeat: NodeJS.Timeout
  #heartbeatUnderWay = false
  #lookedElsewhereAt = -Infinity

  constructor (url: string, { channels, scripts, observer }: SharedRedisUse, log: FastifyBaseLogger) {
    super()
    this.#log = log
    this.#channels = channels
    this.#observer = observer
    const options = {
      lazyConnect: true,
      connectTimeout: 1000,
      disconnectTimeout: DISCONNECT_TIMEOUT_MS,
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      retryStrategy: (attempt: number) => Math.min(attempt * 50, 500)
    }
    this.commands = new Redis(url, { ...options, enableAutoPipelining: true, autoPipeliningIgnoredCommands: ['evalsha'], scripts: { ...scripts } })
    this.#subscriber = new Redis(url, { ...options, autoResubscribe: false })
    for (const connection of [this.commands, this.#subscriber]) giveUpWithoutGreeting(connection)
    this.commands.on('error', (error) => { this.#lastError = error })
    this.#subscriber.on('error', () => {}) // the same server, so the same reasons
    this.commands.on('close', () => this.#trip(this.#lastError ?? new Error('connection closed')))
    this.commands.on('ready', () => { this.#probeSoon(0) })
    this.#subscriber.on('ready', () => { this.#subscribe() })
    this.#subscriber.on('close', () => this.#setSubscribed(false))
    this.#subscriber.on('message', (channelName, payload) => this.emit('message', channelName, payload))
    this.#heartbeat = setInterval(() => {
      this.#beat()
      if (this.reachable) this.#tryAgain()
    }, HEARTBEAT_INTERVAL_MS)
    this.#heartbeat.unref()
  }

  /** Whether commands are worth trying: connected, and the last one did not fail. */
  get reachable (): boolean {
    return !this.#broken && this.commands.status === 'ready'
  }

  /** How often commands began to fail; the first connection counts when it does. */
  get outages (): number {
    return this.#outages
  }

  /** When the last outage of commands ended, in milliseconds of the process clock; before all times if there was none. */
  get backSince (): number {
    return this.#backSince
  }

  /** Whether messages of other replicas arrive. */
  get subscribed (): boolean {
    return this.#subscribed
  }

  /** Begins to connect, and waits a moment so that a Redis that is there is used from the first request on. */
  async start (): Promise<void> {
    const ready = Promise.all([
      new Promise<void>((resolve) => { this.commands.once('ready', resolve) }),
      new Promise<void>((resolve) => { this.once('subscribed', resolve) })
    ])
    this.commands.connect().catch(() => {})
    this.#subscriber.connect().catch(() => {})
    await inTime(ready, START_WAIT_MS).catch(() => {})
  }

  /**
   * Runs commands if Redis can be reached.
   *
   * @throws {RedisAwayError} at once while the breaker is open, or when the command failed
   */
  async run<T> (command: (client: Redis) => Promise<T>): Promise<T> {
    if (!this.reachable) throw new RedisAwayError()
    const observed = this.#observer?.('')
    try {
      const answer = await inTime(command(this.commands), COMMAND_TIMEOUT_MS)
      observed?.()
      return answer
    } catch (error) {
      observed?.(error)
      this.#trip(error)
      throw new RedisAwayError(error)
    }
  }

  /** Ends both connections. */
  close (): void {
    clearInterval(this.#heartbeat)
    clearTimeout(this.#probe)
    this.removeAllListeners()
    this.#closed = true
    this.#broken = true
    this.commands.disconnect()
    this.#subscriber.disconnect()
  }

  #trip (error: unknown): void {
    if (this.#closed) return
    const reason = error instanceof Error ? error.message || (error as NodeJS.ErrnoException).code : String(error)
    // Each reason once per outage: behind a lost connection there may be a refused password.
    if (!this.#saidReasons.has(reason)) this.#log.warn({ reason }, 'Redis can not be used: limits are counted and documents cached per process until it can')
    this.#saidReasons.add(reason)
    const wasBroken = this.#broken
    this.#broken = true
    this.#probeSoon(PROBE_INTERVAL_MS)
    if (wasBroken) return
    this.#outages++
    this.emit('unreachable')
  }

  #probeSoon (delayMs: number): void {
    clearTimeout(this.#probe)
    this.#probe = setTimeout(() => { this.#tryAgain() }, delayMs)
    this.#probe.unref()
  }

  async #tryAgain (): Promise<void> {
    if (this.commands.status !== 'ready') return // the next 'ready' probes again
    try {
      // A write, because a Redis that is full or a read-only replica still answers PING.
      await inTime(this.commands.set('landfall:probe', '1', 'PX', 1000), COMMAND_TIMEOUT_MS)
      if (!this.#broken) return
      this.#broken = false
      this.#backSince = clock.now()
      this.#saidReasons.clear()
      this.#lastError = undefined
      this.#log.info('Redis is back')
      this.emit('reachable')
    } catch (error) {
      this.#trip(error)
      // A connection that only swallows what is sent stays 'ready' for ever; a refusal is an answer.
      if (!(error instanceof ReplyError)) this.commands.disconnect(true)
      else if ((error as Error).message.startsWith('READONLY')) this.#lookElsewhere()
    }
  }

  /** Behind the same address there may be another primary by now: this one has become a replica. */
  #lookElsewhere (): void {
    if (clock.now() - this.#lookedElsewhereAt < LOOK_ELSEWHERE_MS) return
    this.#lookedElsewhereAt = clock.now()
    for (const connection of [this.commands, this.#subscriber]) connection.disconnect(true)
  }

  async #subscribe (): Promise<void> {
    try {
      await inTime(this.#subscriber.subscribe(...this.#channels), GREETING_TIMEOUT_MS)
      this.#setSubscribed(true)
    } catch {
      this.#subscriber.disconnect(true)
    }
  }

  #setSubscribed (subscribed: boolean): void {
    if (this.#subscribed === subscribed) return
    this.#subscribed = subscribed
    this.emit(subscribed ? 'subscribed' : 'unsubscribed')
  }

  async #beat (): Promise<void> {
    if (!this.#subscribed || this.#heartbeatUnderWay) return
    this.#heartbeatUnderWay = true
    try {
      await inTime(this.#subscriber.ping(), HEARTBEAT_TIMEOUT_MS)
    } catch {
      this.#setSubscribed(false)
      this.#subscriber.disconnect(true)
    } finally {
      this.#heartbeatUnderWay = false
    }
  }
}

/** Begins anew with a connection that opens and then swallows what is sent: ioredis would wait for ever. */
function giveUpWithoutGreeting (connection: Redis): void {
  let greeted = (): void => {}
  connection.on('connect', () => {
    inTime(new Promise<void>((resolve) => { greeted = resolve }), GREETING_TIMEOUT_MS).catch(() => connection.disconnect(true))
  })
  for (const event of ['ready', 'close'] as const) connection.on(event, () => greeted())
}

/**
 * What a promise brings, unless that takes too long. The time is counted in slices with a turn of the event loop after
 * each, so that a stall of this process costs one slice: an answer that has arrived meanwhile is read before Redis is
 * blamed.
 *
 * @throws {Error} after `ms` milliseconds
 */
async function inTime<T> (answer: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  let turn: NodeJS.Immediate | undefined
  const late = new Promise<never>((_resolve, reject) => {
    let slices = SLICES
    const wait = () => {
      timer = setTimeout(() => {
        turn = setImmediate(() => {
          if (--slices > 0) wait()
          else reject(new Error('no answer in time'))
        })
      }, ms / SLICES)
    }
    wait()
  })
  try {
    return await Promise.race([answer, late])
  } finally {
    clearTimeout(timer)
    clearImmediate(turn)
  }
}

/** In seconds; past 0.2 a command has failed. */
const BUCKETS = [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2]

function commandSeconds (registry: Registry): Observer {
  const seconds = new Histogram({
    name: 'landfall_redis_command_duration_seconds',
    help: 'Commands to Redis, several that go together as one; those that failed or timed out included',
    buckets: BUCKETS,
    registers: [registry]
  })
  return () => {
    const startedAt = performance.now()
    return () => seconds.observe((performance.now() - startedAt) / 1000)
  }
}

function redisMetrics (registry: Registry, shared: SharedRedis): void {
  gaugeOf(registry, { name: 'landfall_limits_shared', help: 'Redis answers: limits are counted there, over all replicas (1), or in each process alone (0)', aggregator: 'min' }, () => shared.reachable ? 1 : 0)
  gaugeOf(registry, { name: 'landfall_invalidation_channel_up', help: "Other replicas' writes are heard (1) or not (0)", aggregator: 'min' }, () => shared.subscribed ? 1 : 0)
  counterOf(registry, { name: 'landfall_redis_outages_total', help: 'Times that the breaker opened because Redis failed or was too slow' }, () => shared.outages)
}

export default fp<{ url: string | undefined } & SharedRedisUse>(async (app, { url, ...use }) => {
  if (url === undefined) {
    app.decorate('shared', undefined)
    return
  }
  const shared = new SharedRedis(url, { ...use, observer: observedBy(commandSeconds(app.metrics), app.tracing?.observer('redis')) }, app.log)
  redisMetrics(app.metrics, shared)
  app.decorate('shared', shared)
  app.addHook('onClose', async () => shared.close())
  // The plugin waits for 'ready' and would keep the service from starting while Redis is away. It looks only once, and
  // nothing is sent before start() connects, so the status is lent to it for that look.
  const { status } = shared.commands
  shared.commands.status = 'ready'
  await app.register(fastifyRedis, { client: shared.commands })
  shared.commands.status = status
  await shared.start()
}, { name: 'redis', dependencies: ['metrics', 'tracing'] })
