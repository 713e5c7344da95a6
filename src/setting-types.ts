import { isIP } from 'node:net'
import { domainToASCII } from 'node:url'
import { FormatRegistry, Type } from '@sinclair/typebox'

// The kinds of values that settings have, and how they are checked.

/** The smallest and the largest value. */
type Range = readonly [minimum: number, maximum: number]

export const integer = (initial: number, [minimum, maximum]: Range, description: string) =>
  Type.Integer({ default: initial, minimum, maximum, description })
export const optionalInteger = ([minimum, maximum]: Range, description: string) =>
  Type.Optional(Type.Integer({ minimum, maximum, description }))
export const text = (initial: string, description: string) => Type.String({ default: initial, description })
/** @param entries what each entry has to be; `expects` names several */
export const list = (description: string, entries: object) =>
  Type.Array(Type.String(entries), { default: [], description })
/** IPv4 and IPv6 addresses and CIDR ranges. */
export const network = { format: 'network', expects: 'addresses or CIDR ranges' }
export const origin = { format: 'origin', expects: 'origins such as https://app.example.com' }
export const allowedHost = {
  format: 'allowed-host',
  expects: 'host names (www.example.com, *.example.com), addresses or CIDR ranges'
}
export const mediaTypes = {
  pattern: '^[\\w.+-]+/([\\w.+-]+|\\*)$',
  expects: 'content types such as image/png or image/*'
}
export const oneOf = <const Value extends string>(
  values: readonly Value[],
  initial: Value,
  description: string
) =>
  Type.Unsafe<
    Value
  >(Type.Union(values.map((value) => Type.Literal(value)), { default: initial, description }))
export const optionalText = (format: object, description: string) =>
  Type.Optional(Type.String({ ...format, description }))
/** A setting that can also be read from a file, which `<NAME>_FILE` names. */
export const secret = (format: object, description: string) =>
  optionalText({ ...format, secret: true }, description)
export const share = (initial: number, description: string) =>
  Type.Number({ default: initial, minimum: 0, maximum: 1, description })
export const headerValue = { pattern: '^[\\x20-\\x7e]+$', expects: 'a header value' }
/** A list in OpenTelemetry's format. */
export const pairs = (description: string, options: object = {}) =>
  Type.String({
    default: '',
    pattern: '^\\s*([^=,\\s]+\\s*=([^,%]|%[0-9A-Fa-f]{2})*(,|$))*$',
    expects: 'a list of name=value,name=value (percent-encoded where necessary)',
    ...options,
    description
  })
export const httpUrl = {
  format: 'http-url',
  expects: 'an http:// or https:// address without query or fragment'
}
/** Clients see this URL, so it must not contain credentials. */
export const publicUrl = {
  format: 'public-url',
  expects: 'an http:// or https:// address without user name, query or fragment'
}
/** The address at which a website shows a page. */
export const previewUrl = {
  format: 'preview-url',
  maxLength: 2048,
  expects:
    'an https:// address, or http:// on localhost, without a user name; after the host it may contain ' +
    '{public_id}, {id} and {token}, but no other braces and no white space'
}
// Not in the host: whatever is filled in, the address stays on the same website.
const PREVIEW_URL =
  /^https?:\/\/[^\s\p{C}{}\\/?#@]+(?:[/?#](?:[^\s\p{C}{}\\<>"]|\{(?:public_id|id|token)\})*)?$/u
const LOCAL_HOST = /^(?:(?:.+\.)?localhost|127\.0\.0\.1|\[::1\])$/

/** Whether a browser may be sent to this address, whatever its placeholders are filled with. */
export function isPreviewUrl (given: string): boolean {
  if (!PREVIEW_URL.test(given) || !URL.canParse(given)) return false
  const { protocol, hostname } = new URL(given)
  return protocol === 'https:' || LOCAL_HOST.test(hostname)
}

export function isNetwork (entry: string): boolean {
  const [address = '', prefix, ...rest] = entry.split('/')
  const family = isIP(address)
  if (family === 0 || rest.length > 0) return false
  return prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= (family === 4 ? 32 : 128))
}

const HOST_NAME = /^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$/

/** Returns a host name in lower-case ASCII, without a wildcard before it; empty if it is invalid. */
export const hostName = (given: string): string => domainToASCII(given.toLowerCase().replace(/^\*\./, ''))

const isHttpUrl = (given: string): boolean =>
  /^https?:\/\/[^/?#\s]+(\/[^?#\s]*)?$/.test(given) && URL.canParse(given)
FormatRegistry.Set('network', isNetwork)
FormatRegistry.Set(
  'allowed-host',
  (given) => isNetwork(given) || (HOST_NAME.test(hostName(given)) && isIP(hostName(given)) === 0)
)
FormatRegistry.Set(
  'origin',
  (given) =>
    given === '*' || (URL.canParse(given) && /^https?:$/.test(new URL(given).protocol) &&
      new URL(given).origin === given.toLowerCase())
)
FormatRegistry.Set('http-url', isHttpUrl)
FormatRegistry.Set('preview-url', isPreviewUrl)
FormatRegistry.Set('redis-url', (given) => redisNodes(given).length > 0)
FormatRegistry.Set(
  'smtp-url',
  (given) =>
    /^smtps?:\/\/([^/?#\s]*@)?[^/?#@\s]+\/?$/.test(given) && !/%(?![0-9A-Fa-f]{2})/.test(given) &&
    URL.canParse(given) && new URL(given).hostname !== ''
)
const MAIL_ADDRESS = '[^\\s\\p{C}<>"(),:;\\\\@]+@[^\\s\\p{C}<>"(),:;\\\\@]+'
const MAIL_SENDER = new RegExp(`^([^\\p{C}<>"(),:;\\\\@]+ <${MAIL_ADDRESS}>|${MAIL_ADDRESS})$`, 'u')
FormatRegistry.Set('mail-sender', (given) => MAIL_SENDER.test(given))
FormatRegistry.Set(
  'public-url',
  (given) => isHttpUrl(given) && new URL(given).username === '' && new URL(given).password === ''
)

/**
 * Returns the URL of each node that REDIS_URL names. Several nodes, as in `redis://:password@a:7000,b:7000`, are
 * those of a Redis Cluster, which has database 0 only.
 *
 * @returns none if the address is invalid
 */
export function redisNodes (given: string): readonly string[] {
  const [, before = '', hosts = '', after = ''] = /^(rediss?:\/\/(?:[^/?#]*@)?)([^/?#]*)(.*)$/.exec(given) ??
    []
  const urls = hosts.split(',').map((host) => `${before}${host}${after}`)
  const isCluster = urls.length > 1
  const isValid = (url: string): boolean => {
    if (before === '' || !URL.canParse(url)) return false
    const { hostname, pathname } = new URL(url)
    return isCluster ? hostname !== '' && /^(\/0?)?$/.test(after) : /^(\/\d*)?$/.test(pathname)
  }
  return urls.every(isValid) ? urls : []
}
