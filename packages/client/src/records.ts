import type { components } from './api.ts'
import { splitMembers, toJsonText } from './exact-json.ts'
import { getEtag, unwrap, type CallOptions, type Result } from './responses.ts'

type Fields = components['schemas']['LandingPage']

export interface LandingPage<Document = unknown> extends Omit<Fields, 'current_data'> {
  readonly current_data: Document
  /** `current_data` exactly as it was sent, with all digits of its numbers. */
  readonly text: string
}

/** The change is made either way. The `receipt` of the result says how far it got. */
export interface WaitOptions {
  /** Waits up to so many seconds, 1 to 60, until readers get the change everywhere. */
  readonly wait?: number
}

/** How far a change has got by the end of the wait. */
export interface Receipt {
  /** Whether readers get the change everywhere. */
  readonly settled: boolean
  /** What it has reached: `replicas`, and `cdn` if the service purges one. */
  readonly reached: readonly string[]
}

/** The result of a change. */
export interface Received {
  /** Undefined without `wait`, or if nothing was reached in time. */
  readonly receipt?: Receipt
}

export interface VersionedLandingPage<Document = unknown> extends LandingPage<Document>, Received {
  /** Identifies this version of the document, for `ifMatch`. */
  readonly etag: string
}

export interface WriteOptions extends CallOptions {
  /** An `etag`. The call rejects with a `PreconditionFailedError` unless the document still has it. */
  readonly ifMatch?: string
}

/** Options of a write that changes what readers get. */
export interface ChangeOptions extends WriteOptions, WaitOptions {}

/** What may be written with a document. */
export interface PageFields {
  /** A name of the page in your own system, unique in the account; null for none. */
  readonly key?: string | null
  readonly published?: boolean
}

/** The body of a write. `body` only satisfies the types; the serialiser writes the exact text. */
export const createBody = (document: object, fields: PageFields = {}) => ({
  body: { current_data: {} },
  bodySerializer: () =>
    `${JSON.stringify({ ...fields, current_data: 0 }).slice(0, -2)}${toJsonText(document)}}`
})

/** Returns the record in a response. @throws {LandfallError} when the service answered with an error */
export async function unwrapPage<Document> (
  result: Promise<Result<string>>
): Promise<VersionedLandingPage<Document>> {
  const { data, response } = await unwrap(result)
  return { ...parsePage<Document>(data), etag: getEtag(response), ...receivedIn(response) }
}

export function parsePage<Document> (json: string): LandingPage<Document> {
  const record = JSON.parse(json) as Fields & { current_data: Document }
  return { ...record, text: splitMembers(json).find(({ name }) => name === 'current_data')?.text ?? 'null' }
}

/** The headers of a change. */
export const changeHeaders = ({ ifMatch, wait }: WaitOptions & { readonly ifMatch?: string }) => ({
  'if-match': ifMatch,
  prefer: wait === undefined ? undefined : `wait=${wait}`
})

/** A request about a page. */
export const ofPage = (id: string, { signal, ...options }: ChangeOptions = {}) => ({
  params: { path: { id } },
  headers: changeHeaders(options),
  signal
})

export function receivedIn ({ headers }: Response): Received {
  const reached = headers.get('landfall-publication')?.split(', ')
  return reached === undefined ? {} : { receipt: { settled: headers.has('preference-applied'), reached } }
}
