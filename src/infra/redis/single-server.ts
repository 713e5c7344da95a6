import { ReplyError, type Redis } from 'ioredis'
import { clock } from '../system/clock.ts'
import { Backend, COMMAND_TIMEOUT_MS, PROBE_LIFETIME_MS } from './backend.ts'
import { withTimeLimit } from '../system/time-limit.ts'
import { createServerConnection, createSubscriberConnection, type RedisScripts } from './connections.ts'
import { Subscriber } from './subscriber.ts'

/** Minimum interval between two reconnects that look for a new primary. */
const FAILOVER_INTERVAL_MS = 1000

/** One connection for commands and one for messages, to one server. */
export class SingleServer extends Backend {
  readonly commands: Redis
  readonly #subscriber: Subscriber
  #failedOverAt = -Infinity
  /** The last error of ioredis, because its 'close' event has no reason. */
  #lastError: Error | undefined

  constructor (url: string, channels: readonly string[], scripts: RedisScripts) {
    super()
    this.commands = createServerConnection(url, scripts)
    this.commands.on('error', (error) => {
      this.#lastError = error
    })
    this.commands.on('close', () => this.emit('lost', this.#lastError ?? new Error('connection closed')))
    this.commands.on('ready', () => {
      this.#lastError = undefined
      this.emit('ready')
    })
    this.#subscriber = new Subscriber(createSubscriberConnection(url), channels)
    this.#subscriber.on('subscribed', () => this.emit('subscribed'))
    this.#subscriber.on('unsubscribed', () => this.emit('unsubscribed'))
    this.#subscriber.on('message', (channel, payload) => this.emit('message', channel, payload))
  }

  get isSubscribed (): boolean {
    return this.#subscriber.isSubscribed
  }

  connect (): void {
    this.commands.connect().catch(() => {})
    this.#subscriber.connect()
  }

  close (): void {
    this.removeAllListeners()
    this.commands.disconnect()
    this.#subscriber.close()
  }

  async probe (): Promise<void> {
    try {
      await withTimeLimit(
        this.commands.set('landfall:probe', '1', 'PX', PROBE_LIFETIME_MS),
        COMMAND_TIMEOUT_MS
      )
    } catch (error) {
      // Without a response, the connection may be dead although its status is 'ready'.
      if (!(error instanceof ReplyError)) this.commands.disconnect(true)
      else if ((error as Error).message.startsWith('READONLY')) this.#findPrimary()
      throw error
    }
  }

  groups<Item> (items: readonly Item[], _keyOf: (item: Item) => string): (readonly Item[])[] {
    return [items]
  }

  /** Reconnects. This server has become a replica, and the host name may now lead to the new primary. */
  #findPrimary (): void {
    if (clock.now() - this.#failedOverAt < FAILOVER_INTERVAL_MS) return
    this.#failedOverAt = clock.now()
    this.commands.disconnect(true)
    this.#subscriber.reconnect()
  }
}
