import { request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { sha256 } from './documents.ts'
import type { Counts, Request } from './generators/types.ts'

// A rate counts only if the responses are right. Every turn begins with one response that is checked
// completely, and the generator's counts must be consistent with it.

/** A contender gave a wrong response. `message` names the contender and the difference. */
export class WrongResponseError extends Error {}

export interface Expected {
  readonly status: 200 | 304 | 429
  /** Text of the document after decoding; undefined if the body is not a document. */
  readonly text?: string
  /** Patterns for header values, by lower-case name. */
  readonly headers: Readonly<Record<string, RegExp>>
}

export interface Response {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  /** Bytes of head and body as transmitted. */
  readonly wireBytes: number
}

const RESPONSE_TIMEOUT_MS = 10_000

/** Sends one request on a connection of its own. */
export async function ask (port: number, { path, headers }: Request): Promise<Response> {
  return await new Promise((resolve, reject) => {
    const sent = httpRequest({
      host: '127.0.0.1',
      port,
      path,
      headers,
      agent: false,
      timeout: RESPONSE_TIMEOUT_MS
    }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: Buffer.concat(chunks),
          wireBytes: response.socket.bytesRead
        }))
    })
    sent.on('timeout', () => sent.destroy(new Error(`no response within ${RESPONSE_TIMEOUT_MS / 1000} s`)))
    sent.on('error', reject)
    sent.end()
  })
}

/** @throws {WrongResponseError} */
export function checkResponse (
  contender: string,
  { status, headers, body }: Response,
  expected: Expected
): void {
  const fail = (what: string): never => {
    throw new WrongResponseError(`${contender}: ${what}`)
  }
  if (status !== expected.status) fail(`the response's status is ${status} instead of ${expected.status}`)
  for (const [name, pattern] of Object.entries(expected.headers)) {
    const value = headers[name]
    if (!pattern.test(String(value ?? ''))) {
      fail(`the response's ${name} is ${
        value === undefined ? 'missing' : `"${String(value)}"`
      }, which ${pattern} doesn't match`)
    }
  }
  if (expected.status === 304 && body.length > 0) fail(`the 304 has a body of ${body.length} bytes`)
  if (expected.status === 429 && !/^\{"errors":\["[^"]+"/.test(body.toString())) {
    fail(`the 429 doesn't say why: ${body.toString().slice(0, 200)}`)
  }
  if (expected.text === undefined) return
  const decoded = decode(body, headers['content-encoding'])
  const bytes = Buffer.byteLength(expected.text)
  if (decoded.length !== bytes) fail(`the document has ${decoded.length} bytes instead of ${bytes}`)
  if (sha256(decoded) !== sha256(expected.text)) fail('the document differs from the stored one')
}

/**
 * Compares the generator's counts with the expected response.
 *
 * @param wireBytes size of one response
 * @param connections number of connections; each may have had its last response cut off
 * @param others number of responses that may have another status
 * @throws {WrongResponseError}
 */
export function checkCounts (
  contender: string,
  counts: Counts,
  expected: Expected,
  wireBytes: number,
  connections: number,
  others: number
): void {
  const fail = (what: string): never => {
    throw new WrongResponseError(`${contender}: ${what}`)
  }
  if (counts.requests === 0) fail('no request was answered')
  if (counts.socketErrors > 0) {
    fail(`${counts.socketErrors} connections failed or timed out among ${counts.requests} requests`)
  }
  const refused = expected.status === 429
  const wrong = refused ? counts.requests - counts.refused : counts.refused
  if (wrong > others) {
    fail(`${wrong} of ${counts.requests} answers had a status of ${
      refused ? 'less than 400' : '400 or more'
    }`)
  }
  // Numbers in the headers vary in length.
  const perResponse = counts.bytes / counts.requests
  const tolerance = Math.max(64, 0.03 * wireBytes) + (connections + others) * wireBytes / counts.requests
  if (Math.abs(perResponse - wireBytes) > tolerance) {
    fail(`the responses had ${Math.round(perResponse)} bytes on average, the checked one had ${wireBytes}`)
  }
}

function decode (body: Buffer, encoding: string | undefined): Buffer {
  if (encoding === 'br') return brotliDecompressSync(body)
  return encoding === 'gzip' ? gunzipSync(body) : body
}
