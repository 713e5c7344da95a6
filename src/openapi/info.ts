// What the document says before its routes.

export const INFO = {
  title: 'Landfall',
  version: '1.0.0',
  description: `A service for pages that many people read and few people write. An account owner keeps **Landing Pages**, each one free-form JSON document, and **Assets**, uploaded files; anyone reads them.

**Errors.** Every error is \`{"errors": ["…", …]}\`: sentences for a person. A 422 names every rule that a request breaks. 429 and 503 say in \`Retry-After\` when to come again. A path that is none is a 404, a method that a path does not have a 405 with \`Allow\`. What is no HTTP, or too large before there is a request (414, 417, 431), is answered in the same form.

**Ids.** What is unknown, malformed or somebody else's is the same 404.

**Tokens.** Sign in, send the access token as \`Authorization: Bearer …\`, and exchange the refresh token for new ones when a 401 comes.

**Lists** are arrays, newest first. While there is more the answer has a \`Link: <…>; rel="next"\`.

**Versions.** \`ETag\` is the hash of a document. \`If-None-Match\` saves reading what is known, \`If-Match\` writing over what is not.

**HEAD** answers wherever GET does. Unknown fields of a request are ignored. Every answer has an \`X-Request-Id\`.`,
  license: { name: 'MIT', identifier: 'MIT' }
}

export const TAGS = [
  { name: 'Accounts', description: 'Sign up, sign in, tokens' },
  { name: 'Landing Pages', description: "The owner's pages" },
  { name: 'Assets', description: "The owner's uploaded files" },
  { name: 'Public', description: 'What everybody may read, from pages of every origin' },
  { name: 'Health', description: 'For load balancers and orchestrators' },
  { name: 'Reference', description: 'This description' }
]

export const SECURITY_SCHEMES = {
  bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT', description: 'The access token of a sign-up, sign-in or refresh' }
} as const
