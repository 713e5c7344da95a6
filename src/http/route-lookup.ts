import fp from 'fastify-plugin'
import type { FastifyContextConfig, FastifyReply, FastifyRequest } from 'fastify'
import { MethodNotAllowedError, NoStartPageError, NotFoundError } from '../errors.ts'

declare module 'fastify' {
  interface FastifyInstance {
    /** Returns the routes whose pattern matches a URL. Slow, so call it only for requests without a route. */
    routesAt: (url: string) => readonly KnownRoute[]
    /** Returns the methods of these routes, each once. */
    methodsAt: (url: string) => readonly string[]
  }
  interface FastifyContextConfig {
    /** Whether scripts of any origin may read the responses of the route, including errors. */
    anyOrigin?: boolean
  }
}

interface KnownRoute {
  readonly methods: readonly string[]
  readonly config: FastifyContextConfig
}

/** Finds routes of any method, as Fastify's router can't. Knows those registered after this plugin. */
export default fp(async (app) => {
  const routes: Array<KnownRoute & { readonly pattern: RegExp }> = []
  app.addHook('onRoute', ({ url, method, config = {} }) => {
    if (url === '*') return // the route of preflights, which matches every URL
    const pattern = new RegExp(`^${url.replaceAll('.', '\\.').replace(/:\w+/g, '[^/]+').replace('*', '.*')}$`)
    routes.push({ pattern, methods: [method].flat(), config })
  })
  app.decorate('routesAt', (url) => {
    const path = decoded(url.replace(/[?#].*$/s, ''))
    return routes.filter(({ pattern }) => pattern.test(path))
  })
  app.decorate('methodsAt', (url) => [...new Set(app.routesAt(url).flatMap(({ methods }) => methods))])
}, { name: 'route-lookup' })

/** Decodes a path like the router, which matches routes against the result of `decodeURI`. */
function decoded (path: string): string {
  try {
    return decodeURI(path)
  } catch {
    return path
  }
}

/** Answers requests without a route: 405 with `Allow` if the URL has other methods, else 404. */
export const notFound = fp(async (scope) => {
  function refuse (request: FastifyRequest, reply: FastifyReply): never {
    const methods = scope.methodsAt(request.url)
    if (/^\/(\?|$)/.test(request.url)) throw new NoStartPageError(`${scope.baseUrl()}/docs`)
    // If a route has the method, it called the handler itself, for a file that doesn't exist.
    if (methods.length === 0 || methods.includes(request.method)) throw new NotFoundError()
    reply.header('allow', methods.join(', '))
    throw new MethodNotAllowedError()
  }
  scope.setNotFoundHandler(refuse)
  // The handler would run only after the body has been read.
  scope.addHook('onRequest', (request, reply, done) => {
    if (request.is404) refuse(request, reply)
    done()
  })
}, { name: 'not-found', dependencies: ['error-handler', 'route-lookup'] })
