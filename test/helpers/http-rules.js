// The rules of RFC 9110, 9111 and 9112 that every response follows, as linters such as httplint check them.

const DATE = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/
const TAG = /^(W\/)?"[\x21\x23-\x7e]*"$/

const isList = (value, isElement) => value !== undefined && value.split(', ').every(isElement)
const listsMethods = (value) =>
  value !== undefined && (value === '' || isList(value, (method) => /^[A-Z]+$/.test(method))) &&
  new Set(value.split(', ')).size === value.split(', ').length
const isIn = (name, value = '') => value.toLowerCase().split(/, */).includes(name)

/** Each rule: its name, the responses to which it applies, and what is right. */
const RULES = [
  ['Date', () => true, ({ headers }) => DATE.test(headers.date)],
  [
    'a 204 or 304 has no body, and a 204 no Content-Length',
    ({ status }) => status === 204 || status === 304,
    ({ status, headers, body }) =>
      !body?.length && headers['transfer-encoding'] === undefined &&
      (status === 304 || headers['content-length'] === undefined)
  ],
  [
    'Content-Length or Transfer-Encoding',
    () => true,
    ({ headers }) => headers['content-length'] === undefined || headers['transfer-encoding'] === undefined
  ],
  [
    'Content-Length',
    ({ method, status, headers, body }) =>
      method !== 'HEAD' && status !== 304 && body !== undefined && headers['content-length'] !== undefined,
    ({ headers, body }) => Number(headers['content-length']) === body.length
  ],
  [
    'Content-Type of a body',
    ({ body }) => body?.length > 0,
    ({ headers }) => /^[\w-]+\/[\w.+-]+(; charset=utf-8)?$/i.test(headers['content-type'])
  ],
  [
    'Vary with Content-Encoding',
    ({ headers }) => headers['content-encoding'] !== undefined,
    ({ headers }) => isIn('accept-encoding', headers.vary)
  ],
  [
    'Vary with the origin of a request',
    ({ headers }) =>
      headers['access-control-allow-origin'] !== undefined && headers['access-control-allow-origin'] !== '*',
    ({ headers }) => isIn('origin', headers.vary)
  ],
  ['ETag', ({ headers }) => headers.etag !== undefined, ({ headers }) => TAG.test(headers.etag)],
  [
    'Last-Modified',
    ({ headers }) => headers['last-modified'] !== undefined,
    ({ headers }) =>
      DATE.test(headers['last-modified']) &&
      Date.parse(headers['last-modified']) <= Date.parse(headers.date)
  ],
  [
    'Cache-Control',
    () => true,
    ({ headers }) => isList(headers['cache-control'], (directive) => /^[a-z-]+(=\d+)?$/.test(directive))
  ],
  [
    'an error is not stored',
    ({ status }) => status >= 400,
    ({ headers }) => isIn('no-store', headers['cache-control'])
  ],
  [
    'no Expires and no Pragma',
    () => true,
    ({ headers }) => headers.expires === undefined && headers.pragma === undefined
  ],
  [
    'Location',
    ({ status }) => status === 201 || status === 302,
    ({ headers }) => headers.location !== undefined
  ],
  [
    'Content-Range',
    ({ status }) => status === 206 || status === 416,
    ({ status, headers }) =>
      (status === 206 ? /^bytes \d+-\d+\/\d+$/ : /^bytes \*\/\d+$/).test(headers['content-range'])
  ],
  ['the ETag of a 304', ({ status }) => status === 304, ({ headers }) => headers.etag !== undefined],
  // A draft, or a page with a key, that does not exist has none, and some resources never have one.
  [
    'the ETag of a 412',
    ({ status, url = '' }) =>
      status === 412 &&
      !/\/draft$|\/by-key\/|\/(webhooks|api_keys|preview_links|auth\/sessions)(\/|$)|\/auth\/(me|password)$/
        .test(url) &&
      !/^\/(landing_pages|assets)$/.test(url),
    ({ headers }) => headers.etag !== undefined
  ],
  [
    'WWW-Authenticate',
    ({ status }) => status === 401,
    ({ headers }) => /^Bearer( \w+="[^"]*")?$/.test(headers['www-authenticate'])
  ],
  [
    'Allow',
    ({ method, status }) => status === 405 || (method === 'OPTIONS' && status < 300),
    ({ headers }) => listsMethods(headers.allow)
  ],
  [
    'Accept-Patch or Accept-Encoding',
    ({ method, status }) => method === 'PATCH' && status === 415,
    ({ headers }) => headers['accept-patch'] !== undefined || headers['accept-encoding'] !== undefined
  ],
  [
    'Retry-After',
    ({ status }) => status === 429 || status === 503,
    ({ headers }) => /^[1-9]\d*$/.test(headers['retry-after'])
  ]
]

/** Returns the names of the rules that a response breaks. Header names are in lower case. */
export const brokenRules = (answer) =>
  RULES.filter(([, applies, isKept]) => applies(answer) && !isKept(answer)).map(([name]) => name)
