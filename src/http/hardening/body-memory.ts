// Attack: bodies that are announced and never finished, on many connections, until the memory is used up.
// Test: test/integration/hostile/unfinished-bodies.test.ts
// nginx: stops most; it buffers bodies in files, and passes on those that are complete

import type { FastifyInstance } from 'fastify'
import { RetryLaterError } from '../../errors.ts'
import { isJson } from '../json-body.ts'
import { addMetrics } from '../../infra/telemetry/metrics.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The memory that the request's JSON body takes; null without one. `limitBodyMemory` sets it. */
    bodyMemory: BodyShare | null
  }
}

/** The largest share of the memory for an account, and for the sessions of a client address. */
const SESSION_SHARE = 1 / 4
/** The largest share for the requests of an address without a session, such as sign-ins. */
const ANONYMOUS_SHARE = 1 / 16
/** The share that only small bodies may use, so that sign-ins and small writes find room. */
const RESERVED_SHARE = 1 / 4
const SMALL_BODY_BYTES = 16 * 1024
const RETRY_AFTER_SECONDS = 2

/** Counts the bytes of the JSON bodies that a process holds. Other bodies are streamed. */
class BodyMemory {
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

  /**
   * Takes `more` bytes for a body that already has `own` bytes. Returns false if that exceeds the process's
   * memory, or `share` of it for one of its owners. A body that is the only one always fits.
   */
  take (owners: readonly string[], share: number, own: number, more: number): boolean {
    const fits = (held: number, max: number) => held === own || held + more <= max
    const reserved = own + more > SMALL_BODY_BYTES ? RESERVED_SHARE : 0
    const hasRoom = fits(this.#held, this.#maxBytes * (1 - reserved)) &&
      owners.every((owner) => fits(this.#heldBy.get(owner) ?? 0, this.#maxBytes * share))
    if (hasRoom) this.#add(owners, more)
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
class BodyShare {
  readonly #memory: BodyMemory
  readonly #owners: readonly string[]
  readonly #share: number
  #bytes = 0

  /** @param userId the account whose session or API key sends the body, if there is one */
  constructor (memory: BodyMemory, address: string, userId: number | undefined) {
    this.#memory = memory
    this.#owners = userId === undefined ? [`anonymous ${address}`] : [`address ${address}`, `user ${userId}`]
    this.#share = userId === undefined ? ANONYMOUS_SHARE : SESSION_SHARE
  }

  /**
   * Sets how many bytes the body takes.
   *
   * @throws {RetryLaterError} 503 if they are more than before, and there is no room for them
   */
  resize (bytes: number): void {
    const more = bytes - this.#bytes
    if (more > 0 && !this.#memory.take(this.#owners, this.#share, this.#bytes, more)) {
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
 * Adds hooks that count each JSON body from its first byte until its request is answered. A request whose
 * body finds no room gets a 503.
 *
 * @param maxBytes for all JSON bodies of this process
 */
export function limitBodyMemory (scope: FastifyInstance, maxBytes: number): void {
  const memory = new BodyMemory(maxBytes)
  addMetrics(scope.metrics, {
    landfall_request_body_bytes: ['Memory taken by JSON request bodies', () => memory.held],
    landfall_request_bodies_refused_total: [
      'Requests answered 503 because bodies took too much memory (MAX_BODY_MEMORY_BYTES)',
      () => memory.refused
    ]
  })
  scope.decorateRequest('bodyMemory', null)
  scope.addHook('preParsing', (request, reply, payload, done) => {
    // If the client is gone, nothing would give the memory back.
    if (isJson(request) && !reply.raw.destroyed) {
      const share = new BodyShare(memory, scope.addressOf(request).counted, request.userId)
      request.bodyMemory = share
      reply.raw.once('close', () => share.resize(0))
    }
    done(null, payload)
  })
  // The client may read the response slowly.
  scope.addHook('onSend', (request, _reply, payload, done) => {
    request.bodyMemory?.resize(0)
    done(null, payload)
  })
}
