// Attack: bodies that are announced and never finished, on many connections, until the memory is used up.
// Test: test/integration/hostile/unfinished-bodies.test.ts
// nginx: stops most; it buffers bodies in files, and passes on those that are complete

import type { FastifyInstance } from 'fastify'
import { RetryLaterError } from '../../errors.ts'
import { isJson } from '../json-body.ts'
import { addMetrics } from '../../infra/telemetry/metrics.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /**
     * Says how many bytes the JSON body of the request takes; null without one. `limitBodyMemory` sets it. It
     * throws a 503 if they are more than before, and there is no room for them.
     */
    resizeBody: ((bytes: number) => void) | null
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

/** A body that is being held. */
interface Body {
  readonly owners: readonly string[]
  /** The largest part of the memory that each of its owners may have. */
  readonly share: number
  bytes: number
}

/** @param userId the account whose session or API key sends the body, if there is one */
const bodyOf = (address: string, userId: number | undefined): Body =>
  userId === undefined ? { owners: [`anonymous ${address}`], share: ANONYMOUS_SHARE, bytes: 0 }
    : { owners: [`address ${address}`, `user ${userId}`], share: SESSION_SHARE, bytes: 0 }

/** Counts the bytes of the JSON bodies that a process holds. Other bodies are streamed. */
class BodyMemory {
  readonly #maxBytes: number
  readonly #heldBy = new Map<string, number>()
  held = 0
  /** Bodies that found no room, since the start. */
  refused = 0

  /** @param maxBytes for all bodies at once */
  constructor (maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** @throws {RetryLaterError} 503 */
  resize (body: Body, bytes: number): void {
    const more = bytes - body.bytes
    if (more > 0 && !this.#hasRoom(body, more)) {
      this.refused++
      throw new RetryLaterError(
        503,
        'Too many request bodies are being received, try again shortly',
        RETRY_AFTER_SECONDS
      )
    }
    body.bytes = bytes
    this.held += more
    for (const owner of body.owners) {
      const held = (this.#heldBy.get(owner) ?? 0) + more
      if (held === 0) this.#heldBy.delete(owner)
      else this.#heldBy.set(owner, held)
    }
  }

  #hasRoom ({ owners, share, bytes: own }: Body, more: number): boolean {
    // A body that is the only one always fits.
    const fits = (held: number, max: number) => held === own || held + more <= max
    const reserved = own + more > SMALL_BODY_BYTES ? RESERVED_SHARE : 0
    return fits(this.held, this.#maxBytes * (1 - reserved)) &&
      owners.every((owner) => fits(this.#heldBy.get(owner) ?? 0, this.#maxBytes * share))
  }
}

/**
 * Adds hooks that count each JSON body from its first byte until its request is answered. A request whose
 * body finds no room gets a 503.
 */
export function limitBodyMemory (scope: FastifyInstance): void {
  const memory = new BodyMemory(scope.config.MAX_BODY_MEMORY_BYTES)
  addMetrics(scope.metrics, {
    landfall_request_body_bytes: ['Memory taken by JSON request bodies', () => memory.held],
    landfall_request_bodies_refused_total: ['Bodies refused (MAX_BODY_MEMORY_BYTES)', () => memory.refused]
  })
  scope.decorateRequest('resizeBody', null)
  scope.addHook('preParsing', (request, reply, payload, done) => {
    // If the client is gone, nothing would give the memory back.
    if (isJson(request) && !reply.raw.destroyed) {
      const body = bodyOf(scope.addressOf(request).counted, request.userId)
      request.resizeBody = (bytes) => memory.resize(body, bytes)
      reply.raw.once('close', () => memory.resize(body, 0))
    }
    done(null, payload)
  })
  // The client may read the response slowly.
  scope.addHook('onSend', (request, _reply, payload, done) => {
    request.resizeBody?.(0)
    done(null, payload)
  })
}
