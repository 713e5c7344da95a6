import type { Load, Request } from './types.ts'

// The requests of a load as text.

/** Placeholder for a client address in a header of a request. */
export const ADDRESS = '{address}'

/** Returns the address with a number: 10.0.0.0 for 0, 10.0.0.1 for 1, and so on. */
export const addressText = (number: number): string =>
  `10.${number >> 16}.${(number >> 8) & 255}.${number & 255}`

/** The number of different places where a turn may begin. */
export const lengthOf = ({ addresses, order, requests }: Load): number =>
  addresses ?? order?.length ?? requests.length

/** Returns a request with an address in the place of ADDRESS. */
export const withAddress = ({ path, headers }: Request, address: string): Request => ({
  path,
  headers: Object
    .fromEntries(Object.entries(headers).map(([name, value]) => [name, value.replace(ADDRESS, address)]))
})

/** Returns a request as it is sent. */
export function requestText ({ path, headers }: Request, method = 'GET', body = ''): string {
  const length = body === '' ? {} : { 'Content-Length': String(Buffer.byteLength(body)) }
  const lines = Object.entries({ Host: '127.0.0.1', ...headers, ...length }).map(([name, value]) =>
    `${name}: ${value}`
  )
  return [`${method} ${path} HTTP/1.1`, ...lines, '', body].join('\r\n')
}
