import type { IncomingHttpHeaders } from 'node:http'
import type { Config } from '../../config.ts'

/** Creates the spans of this process. Only open-telemetry.ts depends on OpenTelemetry. */
export interface Tracer {
  /** Starts the span of a request, as a child of the span in its `traceparent` header. */
  startRequestSpan(request: TracedRequest): RequestSpan
  /** Returns a hook that creates a span for every query of a traced request. */
  queryHook(system: 'postgresql' | 'redis'): QueryHook
  /** Sends the remaining spans within a time limit. Never rejects. */
  close(): Promise<void>
}

interface TracedRequest {
  readonly id: string
  readonly method: string
  /** The URL pattern of the route. */
  readonly route: string
  /** The path without secrets (`loggedPath`). */
  readonly path: string
  readonly scheme: string
  readonly clientAddress: string
  readonly headers: IncomingHttpHeaders
}

export interface RequestSpan {
  readonly traceId: string
  /** False if the span is not sampled and will not be sent. */
  readonly isRecording: boolean
  /** Runs `action` and its asynchronous continuations in the context of the span. */
  run<T>(action: () => T): T
  /** @param isComplete whether the client received the whole response */
  end(statusCode: number, isComplete: boolean): void
}

/** The standard settings of OpenTelemetry. */
export type TracerSettings =
  & Pick<
    Config,
    | 'OTEL_EXPORTER_OTLP_PROTOCOL'
    | 'OTEL_EXPORTER_OTLP_HEADERS'
    | 'OTEL_SERVICE_NAME'
    | 'OTEL_RESOURCE_ATTRIBUTES'
    | 'OTEL_TRACES_SAMPLER'
    | 'OTEL_TRACES_SAMPLER_ARG'
  >
  & { readonly OTEL_EXPORTER_OTLP_ENDPOINT: string }

/**
 * A function that is called before each query. It returns a function that is called after the query, with the
 * error if the query failed. Neither function may throw.
 *
 * @param text the query without its values
 */
export type QueryHook = (text: string) => (error?: unknown) => void

/** Combines several hooks into one. Returns undefined if all of them are undefined. */
export function combineQueryHooks (...queryHooks: readonly (QueryHook | undefined)[]): QueryHook | undefined {
  const hooks = queryHooks.filter((hook) => hook !== undefined)
  if (hooks.length < 2) return hooks[0]
  return (text) => {
    const ends = hooks.map((hook) => hook(text))
    return (error) => {
      for (const end of ends) end(error)
    }
  }
}
