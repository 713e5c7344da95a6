import { EventEmitter } from 'node:events'
import type { Redis } from 'ioredis'
import { withTimeLimit } from '../system/time-limit.ts'
import { GREETING_TIMEOUT_MS } from './connections.ts'

/** Together they detect a lost channel within 1 s. docs/reliability.md promises 1.5 s. */
const HEARTBEAT_INTERVAL_MS = 500
const HEARTBEAT_TIMEOUT_MS = 500

export interface SubscriberEvents {
  /** Messages arrive from now on. Some may have been missed before. */
  subscribed: []
  /** Messages may be missed from now on. */
  unsubscribed: []
  message: [channel: string, payload: string]
}

/**
 * Subscribes to channels, again after each reconnect. A heartbeat detects a connection whose packets are
 * dropped, which would look open for minutes.
 */
export class Subscriber extends EventEmitter<SubscriberEvents> {
  readonly #connection: Redis
  readonly #channels: readonly string[]
  readonly #heartbeat: NodeJS.Timeout
  #isSubscribed = false
  #isPinging = false

  constructor (connection: Redis, channels: readonly string[]) {
    super()
    this.#connection = connection
    this.#channels = channels
    connection.on('error', () => {}) // the command connection logs the same reason
    connection.on('ready', () => {
      this.#subscribe()
    })
    connection.on('close', () => this.#setSubscribed(false))
    connection.on('message', (channel, payload) => this.emit('message', channel, payload))
    this.#heartbeat = setInterval(() => {
      this.#beat()
    }, HEARTBEAT_INTERVAL_MS)
    this.#heartbeat.unref()
  }

  get isSubscribed (): boolean {
    return this.#isSubscribed
  }

  connect (): void {
    this.#connection.connect().catch(() => {})
  }

  reconnect (): void {
    this.#connection.disconnect(true)
  }

  close (): void {
    clearInterval(this.#heartbeat)
    this.removeAllListeners()
    this.#connection.disconnect()
  }

  async #subscribe (): Promise<void> {
    try {
      await withTimeLimit(this.#connection.subscribe(...this.#channels), GREETING_TIMEOUT_MS)
      this.#setSubscribed(true)
    } catch {
      this.reconnect()
    }
  }

  async #beat (): Promise<void> {
    if (!this.#isSubscribed || this.#isPinging) return
    this.#isPinging = true
    try {
      await withTimeLimit(this.#connection.ping(), HEARTBEAT_TIMEOUT_MS)
    } catch {
      this.#setSubscribed(false)
      this.reconnect()
    } finally {
      this.#isPinging = false
    }
  }

  #setSubscribed (isSubscribed: boolean): void {
    if (this.#isSubscribed === isSubscribed) return
    this.#isSubscribed = isSubscribed
    this.emit(isSubscribed ? 'subscribed' : 'unsubscribed')
  }
}
