import type { Scope } from '@landfall/client'

/** What a key may do, in the words of the console. */
export const SCOPES: readonly (readonly [scope: Scope, name: string])[] = [['pages:read', 'read pages'], [
  'pages:write',
  'change pages'
], ['assets:read', 'read assets'], ['assets:write', 'upload and delete assets']]

export const nameScope = (scope: Scope): string => SCOPES.find(([known]) => known === scope)?.[1] ?? scope
