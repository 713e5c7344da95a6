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

/** The headers of a change. */
export const changeHeaders = ({ ifMatch, wait }: WaitOptions & { readonly ifMatch?: string }) => ({
  'if-match': ifMatch,
  prefer: wait === undefined ? undefined : `wait=${wait}`
})

export function receivedIn ({ headers }: Response): Received {
  const reached = headers.get('landfall-publication')?.split(', ')
  return reached === undefined ? {} : { receipt: { settled: headers.has('preference-applied'), reached } }
}
