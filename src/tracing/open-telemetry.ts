import { AsyncLocalStorage } from 'node:async_hooks'
import { defaultTextMapGetter, diag, DiagLogLevel, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, type Span } from '@opentelemetry/api'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  AlwaysOffSampler, AlwaysOnSampler, BasicTracerProvider, BatchSpanProcessor, ParentBasedSampler, TraceIdRatioBasedSampler, type Sampler, type SpanExporter
} from '@opentelemetry/sdk-trace-base'
import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify'
import type { Observer } from '../observer.ts'
import { loggedPath } from '../plugins/request-log.ts'
import { whenOver } from '../reply.ts'
import { nameOf } from './statement-name.ts'
import type { SamplerName, Tracing, TracingSettings } from './tracing.ts'

// Imported only where traces are sent somewhere. The spans are our own: what instruments libraries by patching them has
// to be loaded before them, and slows down every request of the process, public reads included.

/** What has not been sent this long after everything else has ended is lost, in milliseconds. */
const FLUSH_TIMEOUT_MS = 2000
/** A collector that is away is said again only after so long, in milliseconds. */
const SAY_AGAIN_MS = 60_000

/** Sends spans to a collector in the background. Nothing waits for it; what a slow one doesn't take is dropped. */
export async function openTelemetry (settings: TracingSettings, log: FastifyBaseLogger): Promise<Tracing> {
  sayTroubles(log)
  const provider = new BasicTracerProvider({
    sampler: samplerOf(settings.OTEL_TRACES_SAMPLER, settings.OTEL_TRACES_SAMPLER_ARG),
    resource: resourceFromAttributes({ 'process.pid': process.pid, ...settings.OTEL_RESOURCE_ATTRIBUTES, 'service.name': settings.OTEL_SERVICE_NAME }),
    spanProcessors: [new BatchSpanProcessor(await exporterOf(settings))]
  })
  const tracer = provider.getTracer('landfall')
  const propagator = new W3CTraceContextPropagator()
  const active = new AsyncLocalStorage<Span>()

  function serverSpan (request: FastifyRequest): Span {
    const { method, routeOptions: { url: route = '' }, headers } = request
    return tracer.startSpan(`${method} ${route}`, {
      kind: SpanKind.SERVER,
      attributes: {
        'http.request.method': method,
        'http.route': route,
        'url.path': loggedPath(request.url),
        'url.scheme': request.protocol,
        'client.address': request.server.addressOf(request).full,
        'user_agent.original': headers['user-agent'],
        'landfall.request_id': request.id
      }
    }, propagator.extract(ROOT_CONTEXT, headers, defaultTextMapGetter))
  }

  function endWith (span: Span, reply: FastifyReply): void {
    whenOver(reply.raw, (isWhole) => {
      const { statusCode } = reply.raw
      span.setAttribute('http.response.status_code', statusCode)
      if (statusCode >= 500) span.setStatus({ code: SpanStatusCode.ERROR })
      if (!isWhole) span.setAttribute('error.type', 'client hung up')
      span.end()
    })
  }

  return {
    traceRequests (scope) {
      scope.addHook('onRequest', (request, reply, done) => {
        const span = serverSpan(request)
        request.log = reply.log = request.log.child({ trace_id: span.spanContext().traceId })
        if (!span.isRecording()) return done()
        endWith(span, reply)
        active.run(span, done) // Fastify keeps it over the arrival of the body
      })
    },

    async traceRead (request, reply, read) {
      const span = serverSpan(request)
      if (!span.isRecording()) return await read()
      endWith(span, reply)
      await active.run(span, read)
    },

    observer: (system) => observerOf(system, (name, attributes) => {
      const parent = active.getStore()
      return parent && tracer.startSpan(name, { kind: SpanKind.CLIENT, attributes }, trace.setSpan(ROOT_CONTEXT, parent))
    }),

    async close () {
      let timer: NodeJS.Timeout | undefined
      await Promise.race([
        provider.shutdown(),
        new Promise((_resolve, reject) => { timer = setTimeout(() => reject(new Error('the collector has not answered at the end')), FLUSH_TIMEOUT_MS) })
      ]).catch((error: unknown) => diag.error(error instanceof Error ? error.message : String(error)))
      clearTimeout(timer)
    }
  }
}

type StartSpan = (name: string, attributes: Record<string, string>) => Span | undefined

function observerOf (system: 'postgresql' | 'redis', start: StartSpan): Observer {
  return (text) => {
    const name = system === 'redis' ? 'redis' : nameOf(text)
    const span = start(name, { 'db.system.name': system, ...(text !== '' && { 'db.query.text': text }) })
    return (error) => {
      if (span === undefined) return
      if (error !== undefined) {
        // By its code: PostgreSQL's messages quote values.
        const { code, name } = error as { code?: unknown, name?: string }
        span.setStatus({ code: SpanStatusCode.ERROR })
        span.setAttribute('error.type', typeof code === 'string' ? code : name ?? 'error')
      }
      span.end()
    }
  }
}

async function exporterOf ({ OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_PROTOCOL }: TracingSettings): Promise<SpanExporter> {
  const options = { url: `${OTEL_EXPORTER_OTLP_ENDPOINT.replace(/\/+$/, '')}/v1/traces`, headers: { ...OTEL_EXPORTER_OTLP_HEADERS } }
  const { OTLPTraceExporter } = OTEL_EXPORTER_OTLP_PROTOCOL === 'http/json'
    ? await import('@opentelemetry/exporter-trace-otlp-http')
    : await import('@opentelemetry/exporter-trace-otlp-proto')
  return new OTLPTraceExporter(options)
}

function samplerOf (name: SamplerName, ratio: number): Sampler {
  if (name.startsWith('parentbased_')) return new ParentBasedSampler({ root: samplerOf(name.slice('parentbased_'.length) as SamplerName, ratio) })
  return name === 'traceidratio' ? new TraceIdRatioBasedSampler(ratio) : name === 'always_off' ? new AlwaysOffSampler() : new AlwaysOnSampler()
}

/** What the libraries have to complain of: a collector that is away, mostly. */
function sayTroubles (log: FastifyBaseLogger): void {
  let saidAt = -Infinity
  const nothing = () => {}
  diag.setLogger({
    error (reason) {
      const now = performance.now()
      if (now - saidAt < SAY_AGAIN_MS) return
      saidAt = now
      log.warn({ reason: String(reason).slice(0, 500) }, 'traces could not be sent and are dropped (said once a minute)')
    },
    warn: nothing,
    info: nothing,
    debug: nothing,
    verbose: nothing
  }, { logLevel: DiagLogLevel.ERROR, suppressOverrideMessage: true })
}
