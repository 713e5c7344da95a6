import { EventEmitter } from 'node:events'
import type { RedisCommands } from './connections.ts'
import type { SubscriberEvents } from './subscriber.ts'

/** Time limit of a command. A slower Redis counts as unavailable. */
export const COMMAND_TIMEOUT_MS = 200
/** Lifetime of the key that a probe writes. */
export const PROBE_LIFETIME_MS = 1000

interface BackendEvents extends SubscriberEvents {
  /** Commands can be sent. */
  ready: []
  /** A connection was lost, or Redis may have lost its latest writes. */
  lost: [reason: Error]
}

/** The connections of a `RedisClient`: to one server, or to all masters of a cluster. */
export abstract class Backend extends EventEmitter<BackendEvents> {
  abstract readonly commands: RedisCommands

  /** Whether messages of all replicas arrive. */
  abstract get isSubscribed (): boolean

  /** Sends the commands of this turn of the event loop together, unless ioredis does so by itself. */
  gatherWrites (): void {}

  abstract connect (): void
  abstract close (): void

  /**
   * Writes on each master, because one that is full, or is a read-only replica, still answers PING. Replaces
   * connections that seem dead or lead to the wrong server.
   *
   * @throws the first error
   */
  abstract probe (): Promise<void>

  /** Splits items into groups whose keys one command may name. */
  abstract groups<Item> (items: readonly Item[], keyOf: (item: Item) => string): (readonly Item[])[]
}
