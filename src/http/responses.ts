import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'

/**
 * Calls back once, when a response has been sent or its client has disconnected.
 *
 * @param callback receives true if the response was sent completely
 */
export function onResponseEnd (response: ServerResponse, callback: (isComplete: boolean) => void): void {
  let hasEnded = false
  const end = (isComplete: boolean): void => {
    if (hasEnded) return
    hasEnded = true
    callback(isComplete)
  }
  response.once('finish', () => end(true)).once('close', () => end(response.writableFinished))
}

/** Adds `Connection: close` to a response, unless its headers are already sent. */
export function announceClose (response: ServerResponse): void {
  if (!response.headersSent) response.setHeader('connection', 'close')
}

/**
 * Sends a response without a body. The route's serialiser would turn `null` into four bytes. For HEAD,
 * `undefined` would add `Content-Length: 0`, which is wrong for a 304 (RFC 9110, 8.6).
 */
export const sendWithoutBody = (reply: FastifyReply): FastifyReply =>
  reply.send(reply.request.method === 'HEAD' ? Readable.from([]) : undefined)

// Rows of tables as the API shows them.

type SnakeCase<Name extends string> = Name extends `${infer First}${infer Rest}` ?
  `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${SnakeCase<Rest>}` :
  Name

type Shown<Value> = Value extends Date ? string : Value extends bigint ? number : Value

type RecordOf<Row> = { [Name in keyof Row & string as SnakeCase<Name>]: Shown<Row[Name]> }

/** Turns `createdAt` into `created_at`. */
const snakeCase = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

const show = (value: unknown): unknown =>
  value instanceof Date ? value.toISOString() : typeof value === 'bigint' ? Number(value) : value

/** Converts a row for a response. Columns that the response's schema doesn't name are left out when sent. */
export const recordOf = <Row extends object>(row: Row): RecordOf<Row> =>
  Object.fromEntries(Object.entries(row).map(([name, value]) => [snakeCase(name), show(value)])) as RecordOf<
    Row
  >
