import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Observer } from '../observer.ts'

/** What the service says to its tracer, if it has one. */
export interface Tracing {
  /**
   * Makes a span of each request of a scope, and names the trace in the request's log lines (`trace_id`). To be called
   * before hooks that refuse requests.
   */
  traceRequests (scope: FastifyInstance): void
  /** Makes a span of a public read that takes longer than a look into memory, around what it waits for. */
  traceRead (request: FastifyRequest, reply: FastifyReply, read: () => Promise<void>): Promise<void>
  /** Makes a span of each question to a server that a traced request asks. */
  observer (system: 'postgresql' | 'redis'): Observer
  /** Sends what has not been sent yet, for a limited time. Never rejects. */
  close (): Promise<void>
}

/** Where traces go and which are kept: the standard variables of OpenTelemetry. */
export interface TracingSettings {
  /** Of the collector, without a path for the kind of data. */
  readonly OTEL_EXPORTER_OTLP_ENDPOINT: string
  readonly OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf' | 'http/json'
  readonly OTEL_EXPORTER_OTLP_HEADERS: Readonly<Record<string, string>>
  readonly OTEL_SERVICE_NAME: string
  readonly OTEL_RESOURCE_ATTRIBUTES: Readonly<Record<string, string>>
  readonly OTEL_TRACES_SAMPLER: SamplerName
  /** Share of the traces that the samplers by ratio keep. */
  readonly OTEL_TRACES_SAMPLER_ARG: number
}

export const SAMPLERS = ['always_on', 'always_off', 'traceidratio', 'parentbased_always_on', 'parentbased_always_off', 'parentbased_traceidratio'] as const
export type SamplerName = typeof SAMPLERS[number]
