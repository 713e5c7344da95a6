// Attack: bodies that are announced and never finished, on many connections, until the memory is used up.
// Test: test/integration/hostile/unfinished-bodies.test.ts
// nginx: stops most; it buffers bodies in files, and passes on those that are complete

import type { FastifyInstance } from 'fastify'
import { RetryLaterError } from '../../errors.ts'
import { isJson } from '../json-body.ts'
import { addCounter, addGauge } from '../../infra/telemetry/metrics.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The memory that the request's JSON body takes; null without one. `limitBodyMemory` sets it. */
    bodyMemory: BodyShare | null
  }
}

/** The largest share of the memory for one client address or account. */
const MAX_SHARE = 0.25
const RETRY_AFTER_SECONDS = 2

/** Counts the bytes of the JSON bodies that a process holds. Other bodies are streamed. */
export class BodyMemory {
  readonly #maxBytes: number
  readonly #heldBy = new Map<string, number>()
  #held = 0
  #refused = 0

  /** @param maxBytes for all bodies at once; a body that is larger is taken when there is no other */
  constructor (maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  get held (): number {
    return this.#held
  }

  /** Bodies that found no room, since the start. */
  get refused (): number {
    return this.#refused
  }

  /** Takes bytes for all `owners`. Returns false if that is too much for one of them or for the process. */
  take (owners: readonly string[], bytes: number): boolean {
    const fits = (held: number, max: number) => held === 0 || held + bytes <= max
    const hasRoom = fits(this.#held, this.#maxBytes) &&
      owners.every((owner) => fits(this.#heldBy.get(owner) ?? 0, this.#maxBytes * MAX_SHARE))
    if (hasRoom) this.#add(owners, bytes)
    else this.#refused++
    return hasRoom
  }

  giveBack (owners: readonly string[], bytes: number): void {
    this.#add(owners, -bytes)
  }

  #add (owners: readonly string[], bytes: number): void {
    this.#held += bytes
    for (const owner of owners) {
      const held = (this.#heldBy.get(owner) ?? 0) + bytes
      if (held === 0) this.#heldBy.delete(owner)
      else this.#heldBy.set(owner, held)
    }
  }
}

/** The part of the memory that one request has. */
export class BodyShare {
  readonly #memory: BodyMemory
  readonly #owners: readonly string[]
  #bytes = 0

  constructor (memory: BodyMemory, owners: readonly string[]) {
    this.#memory = memory
    this.#owners = owners
  }

  /**
   * Sets how many bytes the body takes.
   *
   * @throws {RetryLaterError} 503 if they are more than before, and there is no room for them
   */
  resize (bytes: number): void {
    const more = bytes - this.#bytes
    if (more > 0 && !this.#memory.take(this.#owners, more)) {
      throw new RetryLaterError(
        503,
        'Too many request bodies are being received, try again shortly',
        RETRY_AFTER_SECONDS
      )
    }
    if (more < 0) this.#memory.giveBack(this.#owners, -more)
    this.#bytes = bytes
  }
}

/**
 * Adds a hook that counts each JSON body from its announcement until the request is answered. A request whose
 * body finds no room gets a 503 before the body is read.
 *
 * @param maxBytes for all JSON bodies of this process
 */
export function limitBodyMemory (scope: FastifyInstance, maxBytes: number): void {
  const memory = new BodyMemory(maxBytes)
  addGauge(
    scope.metrics,
    {
      name: 'landfall_request_body_bytes',
      help: 'Memory taken by JSON request bodies, announced ones included'
    },
    () => memory.held
  )
  addCounter(
    scope.metrics,
    {
      name: 'landfall_request_bodies_refused_total',
      help: 'Requests answered 503 because bodies took too much memory (MAX_BODY_MEMORY_BYTES)'
    },
    () => memory.refused
  )
  scope.decorateRequest('bodyMemory', null)
  scope.addHook('preParsing', (request, reply, payload, done) => {
    const bytes = Number(request.headers['content-length'] ?? 0) // a chunked body counts as it arrives
    // A body over its limit gets a 413 unread. If the client is gone, nothing would give the memory back.
    if (!isJson(request) || bytes > request.routeOptions.bodyLimit || reply.raw.destroyed) {
      return done(null, payload)
    }
    const owners = [`address ${scope.addressOf(request).counted}`]
    if (request.userId !== undefined) owners.push(`user ${request.userId}`)
    const share = new BodyShare(memory, owners)
    try {
      share.resize(bytes)
    } catch (error) {
      return done(error as Error)
    }
    request.bodyMemory = share
    reply.raw.once('close', () => share.resize(0))
    done(null, payload)
  })
}
