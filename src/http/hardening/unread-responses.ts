// Attack: many large responses that are asked for and never read, until the memory is used up.
// Test: test/integration/hostile/unread-responses.test.ts
// nginx: stops it for documents, which its buffers hold as a whole

import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import fp from 'fastify-plugin'
import type { FastifyInstance } from 'fastify'
import { clock } from '../../infra/system/clock.ts'
import { addMetrics } from '../../infra/telemetry/metrics.ts'
import { currentResponse, writeQueueLength } from './node-internals.ts'

declare module 'fastify' {
  interface FastifyInstance {
    unreadResponses: UnreadResponses
  }
}

const SWEEP_INTERVAL_MS = 1000
/** A connection that takes no byte for this long is closed. */
const MAX_STALL_MS = 30_000
/** The largest share of the memory for one client address or account. */
const MAX_SHARE = 1 / 4
/** Responses of this share of the memory are checked at once and not only by the next sweep. */
const SUDDEN_SHARE = 1 / 8

/** What a pipelined public read takes until its turn. */
const WAITING_READ_BYTES = 4096

/** A connection, and the responses that it hasn't taken yet. */
interface Connection {
  readonly socket: Socket
  /** The address and the account of the last response that was counted. */
  owners: readonly string[]
  /** Whether it has responses whose bytes are not counted in parts. */
  hasUnsharedBytes: boolean
  /** Public reads that wait for their turn. */
  waitingReads: number
  /** Objects that the responses share with others, and functions that return their sizes. */
  readonly parts: Map<object, () => number>
  /** The unsent bytes at the last sweep: all, and those of the write that is under way. */
  unsent: number
  queued: number
  progressAt: number
  /** The memory that its responses take, in bytes. */
  held: number
}

/**
 * Counts the memory of responses that clients haven't taken, and closes connections that hold too much of it.
 * A sweep does this once a second, which costs public reads less than measuring each response.
 */
export class UnreadResponses {
  readonly #maxBytes: number
  /** The open connections: a response may still be counted after its connection was closed. */
  readonly #connections = new Map<Socket, Connection>()
  /** The parts that the last sweep found, and later ones. */
  #parts = new Set<object>()
  /** Bytes of responses since the last sweep. */
  #recent = 0
  /** Bytes of unsent responses at the last sweep. */
  held = 0
  /** Connections that were closed, by reason. */
  readonly closed = { stalled: 0, memory: 0 }

  /** @param maxBytes for all responses; an address or account gets a quarter, and at least one response */
  constructor (maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  open (socket: Socket): void {
    const progressAt = clock.now()
    this.#connections.set(socket, {
      socket,
      owners: [],
      hasUnsharedBytes: false,
      waitingReads: 0,
      parts: new Map(),
      unsent: 0,
      queued: 0,
      progressAt,
      held: 0
    })
    socket.once('close', () => this.#connections.delete(socket))
  }

  /** Counts a response for its owners until it is sent. Earlier responses of the connection must be sent. */
  add (socket: Socket, owners: readonly string[], bytes: number): void {
    const connection = this.#connections.get(socket)
    if (connection === undefined) return
    connection.owners = owners
    connection.hasUnsharedBytes = true
    connection.parts.clear()
    this.#grow(bytes)
  }

  /**
   * Counts an object that responses share, once for all of them.
   *
   * @param size returns its bytes, or 0 while it is in the cache, which counts it
   */
  addPart (socket: Socket, owners: readonly string[], part: object, size: () => number): void {
    const connection = this.#connections.get(socket)
    if (connection === undefined) return
    connection.owners = owners
    connection.parts.set(part, size)
    if (this.#parts.has(part)) return
    this.#parts.add(part)
    this.#grow(size())
  }

  /** Counts a public read whose response waits for those to earlier requests of its connection. */
  addWaitingRead (socket: Socket, owners: readonly string[], response: ServerResponse): void {
    const connection = this.#connections.get(socket)
    if (connection === undefined) return
    connection.owners = owners
    connection.waitingReads++
    response.once('close', () => connection.waitingReads--)
    this.#grow(WAITING_READ_BYTES)
  }

  #grow (bytes: number): void {
    const limit = this.#maxBytes * SUDDEN_SHARE
    if (this.#recent <= limit && this.#recent + bytes > limit) setImmediate(() => this.sweep())
    this.#recent += bytes
  }

  /** Measures all connections, and closes those that stall or hold too much. */
  sweep (): void {
    const now = clock.now()
    this.#parts = new Set()
    this.#recent = 0
    this.held = 0
    const heldBy = new Map<string, number>()
    const holders: Connection[] = []
    for (const connection of this.#connections.values()) {
      if (connection.socket.destroyed) continue
      this.#measure(connection, now)
      if (now - connection.progressAt >= MAX_STALL_MS) this.#close(connection, 'stalled')
      else if (connection.held > 0) {
        this.held += connection.held
        for (const owner of connection.owners) {
          heldBy.set(owner, (heldBy.get(owner) ?? 0) + connection.held)
        }
        holders.push(connection)
      }
    }
    this.#enforce(holders, heldBy)
  }

  #measure (connection: Connection, now: number): void {
    const { socket, parts } = connection
    const { writableLength: unsent } = socket
    if (
      unsent === 0 && (connection.hasUnsharedBytes || parts.size > 0) && currentResponse(socket) === undefined
    ) {
      connection.hasUnsharedBytes = false
      parts.clear()
    }
    connection.held = (connection.hasUnsharedBytes ? unsent : 0) +
      connection.waitingReads * WAITING_READ_BYTES
    for (const [part, size] of parts) {
      if (!this.#parts.has(part)) connection.held += size()
      this.#parts.add(part)
    }
    const queued = writeQueueLength(socket)
    if (
      unsent === 0 || queued === undefined || unsent !== connection.unsent || queued !== connection.queued
    ) {
      connection.progressAt = now
    }
    connection.unsent = unsent
    connection.queued = queued ?? 0
  }

  /** Closes connections of those who hold most, first those that took no byte for the longest time. */
  #enforce (holders: Connection[], heldBy: Map<string, number>): void {
    const share = this.#maxBytes * MAX_SHARE
    holders.sort((a, b) => a.progressAt - b.progressAt)
    for (let limit = share; limit >= 1 && (limit === share || this.held > this.#maxBytes); limit /= 2) {
      for (const connection of holders) {
        const { held, owners } = connection
        // A response that is larger than a share is sent when there is no other.
        const isTooMuch = (own = 0): boolean => own > limit && (limit === share ? own : this.held) > held
        if (held === 0 || !owners.some((owner) => isTooMuch(heldBy.get(owner)))) continue
        if (limit < share && this.held <= this.#maxBytes) return
        for (const owner of owners) heldBy.set(owner, (heldBy.get(owner) ?? 0) - held)
        this.held -= held
        connection.held = 0
        this.#close(connection, 'memory')
      }
    }
  }

  #close ({ socket }: Connection, reason: 'stalled' | 'memory'): void {
    this.closed[reason]++
    socket.destroy()
  }
}

/** Counts the responses of all routes but the public read, which counts its own. */
export function countUnreadResponses (scope: FastifyInstance): void {
  scope.addHook('onSend', (request, _reply, payload, done) => {
    const owners = [`address ${scope.addressOf(request).counted}`]
    if (request.userId !== undefined) owners.push(`user ${request.userId}`)
    const bytes = typeof payload === 'string' || Buffer.isBuffer(payload) ? Buffer.byteLength(payload) : 0
    scope.unreadResponses.add(request.raw.socket, owners, bytes)
    done(null, payload)
  })
}

export default fp(async (app) => {
  const unread = new UnreadResponses(app.config.MAX_UNREAD_BYTES)
  app.decorate('unreadResponses', unread)
  app.server.on('connection', (socket: Socket) => unread.open(socket))
  // If this process was suspended, the sockets report what was sent meanwhile only after the timers.
  const timer = setInterval(() => setImmediate(() => unread.sweep()), SWEEP_INTERVAL_MS).unref()
  app.addHook('onClose', () => clearInterval(timer))
  addMetrics(app.metrics, {
    landfall_unread_response_bytes: ['Memory of unread responses, once a second', () => unread.held],
    landfall_unread_responses_closed_total: ['Connections closed', () => unread.closed, { label: 'reason' }]
  })
}, { name: 'unread-responses', dependencies: ['metrics'] })
