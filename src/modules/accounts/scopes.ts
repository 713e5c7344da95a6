/** What an API key may give access to. */
export type Resource = 'pages' | 'assets'

/** The scopes of API keys. */
export const SCOPES = ['pages:read', 'pages:write', 'assets:read', 'assets:write'] as const
export type Scope = typeof SCOPES[number]

/** Whether a method changes nothing (RFC 9110, 9.2.1). */
export const isSafe = (method: string): boolean => method === 'GET' || method === 'HEAD'

/** Returns the scope that a key needs. The answer of a write shows what it wrote without another scope. */
export const scopeFor = (resource: Resource, method: string): Scope =>
  `${resource}:${isSafe(method) ? 'read' : 'write'}`
