import type { FastifyInstance, FastifyRequest, FastifySchema } from 'fastify'
import { EmailUnconfirmedError, InsufficientScopeError, InvalidKeyError } from '../../errors.ts'
import { useKey } from './api-keys/key-repository.ts'
import { isApiKey, looksLikeApiKey, type Resource, type Scope } from './api-keys/key.ts'
import { authenticateCallers, bearerOf, callerOfSession, isSafe, sessionOf,
  type Caller } from './authenticate.ts'

/** Returns the scope that a key needs. The response of a write shows what it wrote without another scope. */
const scopeFor = (resource: Resource, method: string): Scope =>
  `${resource}:${isSafe(method) ? 'read' : 'write'}`

/**
 * Requires an access token, or an API key with the scope for the method, on all `routes`. Scopes are checked
 * only here, and the OpenAPI document gets them from here.
 */
export function requireAccess (routes: FastifyInstance, resource: Resource): void {
  routes.addHook('onRoute', (route) => {
    const method = [route.method].flat()[0] as string
    const schema: FastifySchema = route.schema ?? {}
    schema.security = [{ bearer: [] }, { apiKey: [scopeFor(resource, method)] }]
  })
  authenticateCallers(
    routes,
    async (request) => {
      const token = bearerOf(request)
      return looksLikeApiKey(token) ? await callerOfKey(routes, request, token, resource)
        : callerOfSession(routes, request, await sessionOf(routes, request, token))
    }
  )
  requireConfirmedEmail(routes)
}

/** With REQUIRE_CONFIRMED_EMAIL, refuses writes of users whose address isn't confirmed. */
export function requireConfirmedEmail (routes: FastifyInstance): void {
  if (!routes.config.REQUIRE_CONFIRMED_EMAIL) return
  routes.addHook('onRequest', async ({ method, caller }) => {
    if (!isSafe(method) && !caller.hasConfirmedEmail) throw new EmailUnconfirmedError()
  })
}

async function callerOfKey (
  { apiKeyUses, database }: FastifyInstance,
  request: FastifyRequest,
  text: string,
  resource: Resource
): Promise<Caller> {
  const key = isApiKey(text) ? await useKey(database, text) : undefined
  if (key === undefined) throw new InvalidKeyError()
  const { id, userId, name, scopes, hasConfirmedEmail } = key
  request.userId = userId
  request.keyId = id
  apiKeyUses.add(id)
  const needed = scopeFor(resource, request.method)
  if (!scopes.includes(needed)) throw new InsufficientScopeError(needed)
  return {
    userId,
    author: { type: 'api_key', name },
    hasConfirmedEmail,
    isValid: async () => await useKey(database, text) !== undefined
  }
}
