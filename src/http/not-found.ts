import fp from 'fastify-plugin'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { MethodNotAllowedError, NoStartPageError, NotFoundError } from '../errors.ts'

/** Answers requests without a route: 405 with `Allow` if the URL has other methods, else 404. */
export default fp(async (scope) => {
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
