import { createServer, type IncomingHttpHeaders } from 'node:http'
import { text } from 'node:stream/consumers'
import { listen, type Teardown } from './servers.ts'
import { until } from './until.ts'

// An HTTP server on the loopback address that takes purges, as the API of a CDN does.

export interface ReceivedPurge {
  readonly method: string | undefined
  readonly path: string | undefined
  readonly headers: IncomingHttpHeaders
  readonly body: string
  /** The tags, wherever they are. */
  readonly tags: readonly string[]
  /** On the clock of the test, in milliseconds. */
  readonly at: number
}

export type FakeCdn = Awaited<ReturnType<typeof startCdn>>

interface Response {
  readonly status: number
  readonly headers?: Record<string, string>
  readonly body?: object
}

/**
 * Starts a server; the end of the test stops it.
 *
 * @param answer returns the response to each request; requests that it refuses purge nothing
 */
export async function startCdn (
  t: Teardown,
  answer: (request: ReceivedPurge, count: number) => Response = () => ({ status: 200 })
) {
  const requests: ReceivedPurge[] = []
  const accepted: ReceivedPurge[] = []
  const server = createServer((incoming, outgoing) => {
    text(incoming).then((body) => {
      const { method, url: path, headers } = incoming
      const request = { method, path, headers, body, tags: tagsOf(headers, body), at: performance.now() }
      requests.push(request)
      const { status, headers: own, body: result } = answer(request, requests.length)
      if (status < 300) accepted.push(request)
      outgoing.writeHead(status, own).end(JSON.stringify(result))
    }).catch(() => outgoing.destroy())
  })
  return {
    url: `http://127.0.0.1:${await listen(t, server)}`,
    requests: requests as readonly ReceivedPurge[],
    /** Waits for purge number `count` of a page or file, and returns it. */
    purge: async (name: string, count = 1) =>
      await until(
        () => accepted.filter(({ tags }) => tags.includes(`lf-${name}`))[count - 1],
        `purge ${count} of ${name}`
      )
  }
}

function tagsOf (headers: IncomingHttpHeaders, body: string): string[] {
  const listed = headers['xkey-purge'] ?? headers['surrogate-key']
  if (listed !== undefined) return String(listed).split(' ')
  return (JSON.parse(body) as { tags: string[] }).tags
}
