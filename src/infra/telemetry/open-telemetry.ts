import { AsyncLocalStorage } from 'node:async_hooks'
import type { IncomingHttpHeaders } from 'node:http'
import { defaultTextMapGetter, diag, DiagLogLevel, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace,
  type Span } from '@opentelemetry/api'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { AlwaysOffSampler, AlwaysOnSampler, BasicTracerProvider, BatchSpanProcessor, ParentBasedSampler,
  TraceIdRatioBasedSampler, type Sampler, type SpanExporter } from '@opentelemetry/sdk-trace-base'
import type { FastifyBaseLogger } from 'fastify'
import type { Config } from '../../config.ts'
import { withTimeLimit } from '../system/time-limit.ts'
import type { QueryHook } from './query-hooks.ts'

// Imported only if traces are sent. Spans are created explicitly, because instrumentation that patches
// libraries would have to be loaded first and would slow down all requests, including public reads.

/** How long `close()` waits for the collector. */
const FLUSH_TIMEOUT_MS = 2000
/** Minimum interval between two log lines about an unreachable collector. */
const LOG_INTERVAL_MS = 60_000

type TracerSettings = Config & { readonly OTEL_EXPORTER_OTLP_ENDPOINT: string }

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

/** Creates the spans of this process. */
export type Tracer = Awaited<ReturnType<typeof createTracer>>
export type RequestSpan = ReturnType<Tracer['startRequestSpan']>

/** Sends spans in the background. Requests don't wait. If the collector is too slow, spans are dropped. */
export async function createTracer (settings: TracerSettings, log: FastifyBaseLogger) {
  logExportErrors(log)
  const provider = new BasicTracerProvider({
    sampler: createSampler(settings.OTEL_TRACES_SAMPLER, settings.OTEL_TRACES_SAMPLER_ARG),
    resource: resourceFromAttributes({
      'process.pid': process.pid,
      ...settings.OTEL_RESOURCE_ATTRIBUTES,
      'service.name': settings.OTEL_SERVICE_NAME
    }),
    spanProcessors: [new BatchSpanProcessor(await createExporter(settings))]
  })
  const tracer = provider.getTracer('landfall')
  const propagator = new W3CTraceContextPropagator()
  const activeSpan = new AsyncLocalStorage<Span>()
  let openSpans = 0

  return {
    /** Starts the span of a request, as a child of the span in its `traceparent` header. */
    startRequestSpan ({ id, method, route, path, scheme, clientAddress, headers }: TracedRequest) {
      const span = tracer.startSpan(`${method} ${route}`, {
        kind: SpanKind.SERVER,
        attributes: {
          'http.request.method': method,
          'http.route': route,
          'url.path': path,
          'url.scheme': scheme,
          'client.address': clientAddress,
          'user_agent.original': headers['user-agent'],
          'landfall.request_id': id
        }
      }, propagator.extract(ROOT_CONTEXT, headers, defaultTextMapGetter))
      return {
        traceId: span.spanContext().traceId,
        /** False if the span is not sampled and will not be sent. */
        isRecording: span.isRecording(),
        /** Runs `action` and its asynchronous continuations in the context of the span. */
        run<T> (action: () => T): T {
          openSpans++
          return activeSpan.run(span, action)
        },
        /** @param isComplete whether the client received the whole response */
        end (statusCode: number, isComplete: boolean): void {
          // While AsyncLocalStorage is enabled, all reads are slower (15 % on Node 20).
          if (--openSpans === 0) activeSpan.disable()
          span.setAttribute('http.response.status_code', statusCode)
          if (statusCode >= 500) span.setStatus({ code: SpanStatusCode.ERROR })
          if (!isComplete) span.setAttribute('error.type', 'client disconnected')
          span.end()
        }
      }
    },

    /** Returns a hook that creates a span for every query of a traced request. */
    queryHook: (system: 'postgresql' | 'redis'): QueryHook => (text) => {
      const parent = activeSpan.getStore()
      if (parent === undefined) return () => {}
      const name = system === 'redis' ? 'redis' : nameOf(text)
      const attributes = { 'db.system.name': system, ...text !== '' && { 'db.query.text': text } }
      const context = trace.setSpan(ROOT_CONTEXT, parent)
      const span = tracer.startSpan(name, { kind: SpanKind.CLIENT, attributes }, context)
      return (error) => {
        if (error !== undefined) {
          // The code instead of the message, because PostgreSQL's messages quote values.
          const { code, name } = error as { code?: unknown, name?: string }
          span.setStatus({ code: SpanStatusCode.ERROR })
          span.setAttribute('error.type', typeof code === 'string' ? code : name ?? 'error')
        }
        span.end()
      }
    },

    /** Sends the remaining spans within a time limit. Never rejects. */
    async close (): Promise<void> {
      await withTimeLimit(provider.shutdown(), FLUSH_TIMEOUT_MS)
        .catch((error: unknown) => diag.error(error instanceof Error ? error.message : String(error)))
    }
  }
}

async function createExporter (
  { OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_PROTOCOL }: TracerSettings
): Promise<SpanExporter> {
  const { OTLPTraceExporter } = OTEL_EXPORTER_OTLP_PROTOCOL === 'http/json'
    ? await import('@opentelemetry/exporter-trace-otlp-http')
    : await import('@opentelemetry/exporter-trace-otlp-proto')
  return new OTLPTraceExporter({
    url: `${OTEL_EXPORTER_OTLP_ENDPOINT.replace(/\/+$/, '')}/v1/traces`,
    headers: { ...OTEL_EXPORTER_OTLP_HEADERS }
  })
}

function createSampler (name: TracerSettings['OTEL_TRACES_SAMPLER'], ratio: number): Sampler {
  const root = name.endsWith('always_on') ? new AlwaysOnSampler()
    : name.endsWith('always_off') ? new AlwaysOffSampler() : new TraceIdRatioBasedSampler(ratio)
  return name.startsWith('parentbased_') ? new ParentBasedSampler({ root }) : root
}

/** Logs errors of OpenTelemetry. The usual cause is an unreachable collector. */
function logExportErrors (log: FastifyBaseLogger): void {
  let loggedAt = -Infinity
  const ignore = () => {}
  diag.setLogger({
    error (reason) {
      const now = performance.now()
      if (now - loggedAt < LOG_INTERVAL_MS) return
      loggedAt = now
      log.warn(
        { reason: String(reason).slice(0, 500) },
        'traces could not be sent and are dropped (logged at most once a minute)'
      )
    },
    warn: ignore,
    info: ignore,
    debug: ignore,
    verbose: ignore
  }, { logLevel: DiagLogLevel.ERROR, suppressOverrideMessage: true })
}

/** Changes of data, without `FOR UPDATE OF` and `DO UPDATE SET`. */
const CHANGES = /(?<!\b(?:FOR|KEY|DO)\s+)\b(INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+([\w."]+)/gi

/** Returns a short name for a statement: its verb and its table, such as `UPDATE landing_pages`. */
function nameOf (text: string): string {
  // A WITH query is named after the part that its rows come from, or else after its last change of data: the
  // earlier ones prepare it.
  const source = /\bFROM\s+(\w+)\s*$/i.exec(text)?.[1]
  const part = source === undefined ? -1 : text.indexOf(`${source} AS (`)
  const change = [...text.slice(Math.max(part, 0)).matchAll(CHANGES)].at(part === -1 ? -1 : 0)
  const [, verb, table] = change ?? /\b(SELECT)\b[^]*?\bFROM\s+([\w."]+)/i.exec(text) ?? []
  if (verb === undefined || table === undefined) {
    return /^\s*(\w+)/.exec(text)?.[1]?.toUpperCase() ?? 'statement'
  }
  return `${verb.split(/\s/, 1)[0]?.toUpperCase()} ${table.replaceAll('"', '').split('.').at(-1)}`
}
