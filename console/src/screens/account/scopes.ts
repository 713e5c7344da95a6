import type { Scope } from '@landfall/client'

/** What a key may do, in the words of the console. */
export const SCOPES: readonly (readonly [scope: Scope, name: string])[] = [
  ['pages:read', 'read pages, their drafts, versions and read counts'],
  ['drafts:write', 'write drafts of pages, without publishing them'],
  ['pages:write', 'create, change and delete pages'],
  ['assets:read', 'read assets'],
  ['assets:write', 'upload and delete assets']
]

/** A request for each scope. Those that change nothing come first. */
const EXAMPLES: readonly (readonly [scope: Scope, request: string])[] = [
  ['pages:read', '/manage/landing_pages'],
  ['assets:read', '/assets'],
  [
    'pages:write',
    `/landing_pages -H 'Content-Type: application/json' -d '{"current_data":{"title":"Made with curl"}}'`
  ],
  ['assets:write', "/assets -F 'asset[file]=@picture.jpg'"]
]

export const nameScope = (scope: Scope): string => SCOPES.find(([known]) => known === scope)?.[1] ?? scope

/** Returns a command that uses a key with these scopes. @param base without a slash at the end */
export function curlCommand (base: string, key: string, scopes: readonly Scope[]): string {
  const [, request = ''] = EXAMPLES.find(([scope]) => scopes.includes(scope)) ?? []
  return `curl -H 'Authorization: Bearer ${key}' ${base}${request}`
}
