import { VERSION } from '../../infra/system/version.ts'

// The title, the introduction, the tags and the security schemes of the OpenAPI document.

/** Makes one line of each paragraph. */
const withoutLineBreaks = (text: string): string => text.replaceAll(/(?<!\n)\n(?!\n)/g, ' ')

export const INFO = {
  title: 'Landfall',
  version: VERSION,
  description:
    withoutLineBreaks(`Landfall stores and serves landing pages. An account owns **Landing Pages**, which are
free-form JSON documents, and **Assets**, which are uploaded files. Only the owner can list and change them;
everybody can read them by their public URLs.

**Errors.** Every error response has the body \`{"errors": ["…", …]}\`, a list of sentences that can be
shown to users. A 422 lists all rules that the request breaks. A 429 or 503 has a \`Retry-After\` header. An
unknown path gets a 404. A method that the path does not support gets a 405 with an \`Allow\` header.
Requests that are refused before they reach a route (400, 408, 413, 414, 417, 431) get the same body.

**Ids.** A record that does not exist, a malformed id and a record of another account all get the same 404.

**Tokens.** Sign in and send the access token as \`Authorization: Bearer …\`. After a 401, exchange the
refresh token for a new pair of tokens.

**API keys** let programs manage pages and assets without a sign-in. Send one as \`Authorization: Bearer
lf_…\`. Each operation names the scope that it needs; a key without it gets a 403. A key is refused on
accounts, sessions, keys and webhooks.

**Preview links** let others read the draft of one page without an account. Their tokens (\`Authorization:
Bearer lfp_…\`) work on \`/previews\` only.

**Lists** are arrays, newest first unless the operation says otherwise. If there are more records, the
response has a \`Link: <…>; rel="next"\` header. Read counts are oldest first, and complete.

**ETags.** The \`ETag\` of a document is derived from its content. Send it as \`If-None-Match\` to avoid
downloading an unchanged document, and as \`If-Match\` to avoid overwriting a change that you have not seen.

**Versions and patches.** Each change of a document adds a version. Its owner can list earlier versions
(each entry is a revision), read their documents and restore one. A patch changes parts of a document and
keeps every byte that it does not name. A 409 means that what the request changes is not in the state that
it needs: a \`test\` of a JSON Patch found another value, a draft is outdated or scheduled, or a file is in
use.

**HEAD** is supported wherever GET is. Unknown fields in requests are ignored. Every response has an
\`X-Request-Id\` header.`),
  contact: { name: 'The operator of this service' },
  license: { name: 'MIT', identifier: 'MIT' }
}

export const TAGS = [
  { name: 'Accounts', description: 'Sign-up, sign-in, sessions, password and deletion' },
  { name: 'API keys', description: 'Keys with which programs manage pages and assets' },
  { name: 'Webhooks', description: 'Messages about changes of pages, for other services' },
  { name: 'Landing Pages', description: 'Manage the landing pages of the account' },
  { name: 'Assets', description: 'Manage the uploaded files of the account' },
  {
    name: 'Public',
    description: 'Read documents, files and previews without an account, from web pages of any origin'
  },
  { name: 'Health', description: 'Health checks for load balancers and orchestrators' },
  { name: 'Reference', description: 'This API description' }
]

export const SECURITY_SCHEMES = {
  bearer: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'The access token from a sign-up, sign-in or refresh'
  },
  apiKey: {
    type: 'http',
    scheme: 'bearer',
    description: 'An API key with the scope that the operation names'
  },
  previewLink: { type: 'http', scheme: 'bearer', description: 'The token of a preview link of the page' }
} as const
