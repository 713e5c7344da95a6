import slotOf from 'cluster-key-slot'
import { ReplyError, type Cluster, type Redis } from 'ioredis'
import { Backend, COMMAND_TIMEOUT_MS, PROBE_LIFETIME_MS } from './backend.ts'
import { withTimeLimit } from '../system/time-limit.ts'
import { createCluster, createNodeSubscriberConnection, type RedisScripts } from './connections.ts'
import { Subscriber } from './subscriber.ts'

/** Limit for asking all nodes for the layout, one after the other. */
const LAYOUT_LIMIT_MS = 3000
/** Names to choose from for the keys of probes. A master with fewer than about ten slots may have none. */
const PROBE_NAME_COUNT = 4096

/**
 * The masters of a Redis Cluster. Each has a subscriber, so that a message arrives from the master that runs
 * the script, even while the nodes can't reach each other. Messages arrive once per master.
 */
export class ServerCluster extends Backend {
  readonly commands: Cluster
  readonly #url: string
  readonly #channels: readonly string[]
  /** By address of the master. */
  readonly #subscribers = new Map<string, Subscriber>()
  #wasSubscribed = false
  #isLayoutDoubtful = false
  #isGathering = false
  /** Why the connection was lost. Other events of ioredis have no reason. */
  #lastError: Error | undefined
  #probeNames: readonly { readonly key: string, readonly slot: number }[] | undefined

  constructor (url: string, channels: readonly string[], scripts: RedisScripts) {
    super()
    this.#url = url
    this.#channels = channels
    this.commands = createCluster(url, scripts)
    this.commands.on('error', (error: Error) => {
      this.#lastError ??= error // says that all nodes have failed; a 'node error' before it says why
    })
    this.commands.on('node error', (error: Error) => {
      this.#lastError = error
    })
    this.commands.on('close', () => this.#lose('connection closed'))
    this.commands.on('-node', (node: Redis) => {
      if (this.#subscribers.has(addressOf(node))) this.#lose('connection to a master closed')
    })
    this.commands.on('refresh', () => this.#adoptLayout())
    this.commands.on('ready', () => this.emit('ready'))
  }

  get isSubscribed (): boolean {
    const subscribers = [...this.#subscribers.values()]
    return subscribers.length > 0 && subscribers.every(({ isSubscribed }) => isSubscribed)
  }

  connect (): void {
    this.commands.connect().catch(() => {})
  }

  close (): void {
    this.removeAllListeners()
    this.commands.removeAllListeners('refresh')
    this.commands.disconnect()
    for (const subscriber of this.#subscribers.values()) subscriber.close()
  }

  override gatherWrites (): void {
    if (this.#isGathering) return
    this.#isGathering = true
    const streams = this.commands.nodes('master').map(({ stream }: Partial<Redis>) => stream)
    for (const stream of streams) stream?.cork()
    process.nextTick(() => {
      this.#isGathering = false
      for (const stream of streams) stream?.uncork()
    })
  }

  async probe (): Promise<void> {
    try {
      if (this.#isLayoutDoubtful) await this.#refreshLayout()
      const responses = await Promise.allSettled([...this.#keysOfMasters()].map(async ([address, key]) =>
        await this.#probeMaster(address, key)
      ))
      const failure = responses.find(({ status }) =>
        status === 'rejected'
      )
      if (failure?.status === 'rejected') throw failure.reason
      this.#isLayoutDoubtful = false
      this.#lastError = undefined
    } catch (error) {
      this.#isLayoutDoubtful = true
      throw error
    }
  }

  groups<Item> (items: readonly Item[], keyOf: (item: Item) => string): (readonly Item[])[] {
    const groups = new Map<number, Item[]>()
    for (const item of items) {
      const slot = slotOf(keyOf(item))
      const group = groups.get(slot)
      if (group === undefined) groups.set(slot, [item])
      else group.push(item)
    }
    return [...groups.values()]
  }

  async #probeMaster (address: string, key: string): Promise<void> {
    try {
      await withTimeLimit(this.commands.set(key, '1', 'PX', PROBE_LIFETIME_MS), COMMAND_TIMEOUT_MS)
    } catch (error) {
      // Without a response, the connection may be dead although its status is 'ready'.
      if (!(error instanceof ReplyError)) {
        this.commands.nodes('master').find((node) => addressOf(node) === address)?.disconnect()
      }
      throw error
    }
  }

  /** Asks the nodes which of them has which slots. */
  async #refreshLayout (): Promise<void> {
    try {
      await withTimeLimit(
        new Promise<void>((resolve, reject) => {
          this.commands.refreshSlotsCache((error) => {
            if (error == null) resolve() // null or undefined
            else reject(error)
          })
        }),
        LAYOUT_LIMIT_MS
      )
    } catch (error) {
      // No known node responds: connect again by the names in REDIS_URL, whose addresses may be new.
      if (this.commands.status === 'ready') this.commands.disconnect(true)
      throw this.#lastError ?? error
    }
  }

  /** Follows the masters. A promoted replica may lack the last writes, so a promotion counts as an outage. */
  #adoptLayout (): void {
    const masters = this.commands.nodes('master')
    const addresses = new Set(masters.map(addressOf))
    const isFirst = this.#subscribers.size === 0
    for (const [address, subscriber] of this.#subscribers) {
      if (addresses.has(address)) continue
      subscriber.close()
      this.#subscribers.delete(address)
    }
    const added = masters.filter((node) => !this.#subscribers.has(addressOf(node)))
    for (const node of added) this.#subscribe(node)
    this.#announce()
    if (isFirst || added.length === 0) return
    // 'lost' opens the breaker, and 'ready' starts the probe that closes it.
    this.emit('lost', new Error('another node of the cluster has become a master'))
    this.emit('ready')
  }

  #subscribe (node: Redis): void {
    const { host = '', port = 0 } = node.options
    const subscriber = new Subscriber(createNodeSubscriberConnection(this.#url, host, port), this.#channels)
    this.#subscribers.set(addressOf(node), subscriber)
    subscriber.on('subscribed', () => this.#announce())
    subscriber.on('unsubscribed', () => this.#announce())
    subscriber.on('message', (channel, payload) => this.emit('message', channel, payload))
    subscriber.connect()
  }

  #announce (): void {
    const isSubscribed = this.isSubscribed
    if (isSubscribed === this.#wasSubscribed) return
    this.#wasSubscribed = isSubscribed
    this.emit(isSubscribed ? 'subscribed' : 'unsubscribed')
  }

  #lose (reason: string): void {
    this.#isLayoutDoubtful = true
    this.emit('lost', this.#lastError ?? new Error(reason))
  }

  /** Returns a key of each master, by its address, to probe it. One with few slots may have none. */
  #keysOfMasters (): Map<string, string> {
    this.#probeNames ??= Array.from({ length: PROBE_NAME_COUNT }, (_, n) => {
      const key = `landfall:probe:${n}`
      return { key, slot: slotOf(key) }
    })
    const keys = new Map<string, string>()
    for (const { key, slot } of this.#probeNames) {
      const address = this.commands.slots[slot]?.[0]
      if (address !== undefined && !keys.has(address)) keys.set(address, key)
      if (keys.size === this.#subscribers.size) break // every master has its key
    }
    return keys
  }
}

const addressOf = ({ options: { host, port } }: Redis): string => `${host}:${port}`
