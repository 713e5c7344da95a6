// Checks whether the reads and writes of clients on several replicas are consistent with the promises of the
// service. All times come from one clock.

/** The version of a deleted page, which is newer than all others. */
export const GONE = Infinity

/** An answered request of a client. */
export interface Operation {
  /**
   * - `write`: created or replaced the page, or deleted it (`GONE`)
   * - `refused`: a conditional write that failed, with the version that it demanded
   * - `read`: the public read, `GONE` for a 404
   * - `manage`: a response of a management route that shows the page's version, `GONE` for a 404
   */
  readonly kind: 'write' | 'refused' | 'read' | 'manage'
  readonly replica: number
  readonly page: string
  /** The version that was written or read; undefined if nobody wrote the document. */
  readonly version: number | undefined
  /** The version that a conditional write demanded. */
  readonly ifMatch?: number | undefined
  /** Times of the request and of its response, in milliseconds. */
  readonly start: number
  readonly end: number
}

/** A period in which a replica could not publish its writes, in milliseconds of the operations' clock. */
export interface Outage {
  readonly replica: number
  readonly from: number
  readonly to: number
}

export interface Promises {
  /**
   * Limit of the time from a write, or from the end of the writer's outage, until all replicas serve it, in
   * ms.
   */
  readonly boundMs: number
  readonly outages?: readonly Outage[]
}

const RULES = {
  unwritten: 'returns a document that nobody had written',
  backwards: 'returns an older version than an earlier read on the same replica',
  'own write': 'does not return an earlier write on the same replica',
  stale: 'does not return a write that is older than the bound',
  'management read': 'does not return what a management route wrote or returned before',
  order: 'wrote an older version than a write that had ended before',
  twice: 'wrote a version a second time',
  'unmet condition': 'replaced another version than the one in If-Match',
  'wrongly refused': 'was refused although the version in If-Match was the newest one'
} as const

export type Rule = keyof typeof RULES

export interface Violation {
  readonly rule: Rule
  readonly operation: Operation
  /** The operation that it contradicts. */
  readonly earlier?: Operation
}

/**
 * Returns the operations that break a promise (see `RULES`). Operations that overlap in time may have
 * happened in any order.
 */
export function checkHistory (operations: readonly Operation[], promises: Promises): Violation[] {
  return byPage(operations).flatMap((ofPage) => checkPage(ofPage, promises))
}

function byPage (operations: readonly Operation[]): Operation[][] {
  const pages = new Map<string, Operation[]>()
  for (const operation of operations) {
    const ofPage = pages.get(operation.page)
    if (ofPage === undefined) pages.set(operation.page, [operation])
    else ofPage.push(operation)
  }
  return [...pages.values()]
}

function checkPage (operations: readonly Operation[], { boundMs, outages = [] }: Promises): Violation[] {
  const of = (...kinds: Operation['kind'][]) =>
    operations.filter(({ kind, version }) => kinds.includes(kind) && version !== undefined)
  const writes = of('write')
  const reads = of('read')
  const management = of('manage')
  const atEnd = (earlier: readonly Operation[]) =>
    earlier.map((operation) => ({ operation, at: operation.end }))
  const violations: Violation[] = [
    ...checkOrigins(operations, writes),
    ...older(
      'stale',
      writes.map((operation) => ({ operation, at: toldAt(operation, outages) + boundMs })),
      reads
    ),
    ...older('management read', atEnd([...writes, ...management]), management),
    ...older('order', atEnd(writes), writes),
    ...checkConditions(writes, of('refused'))
  ]
  for (const replica of new Set(reads.map(({ replica }) => replica))) {
    const here = (operation: Operation): boolean => operation.replica === replica
    const readsHere = reads.filter(here)
    violations.push(
      ...older('backwards', atEnd(readsHere), readsHere),
      ...older('own write', atEnd(writes.filter(here)), readsHere)
    )
  }
  return violations
}

/**
 * Returns the operations of `later` whose version is older than one of `earlier` that was settled (`at`)
 * before.
 */
function older (
  rule: Rule,
  earlier: { operation: Operation, at: number }[],
  later: readonly Operation[]
): Violation[] {
  const settled = earlier.sort((a, b) => a.at - b.at)
  const violations: Violation[] = []
  let newest: Operation | undefined
  let next = 0
  for (const operation of later.toSorted((a, b) => a.start - b.start)) {
    for (
      let candidate = settled[next];
      candidate !== undefined && candidate.at < operation.start;
      candidate = settled[++next]
    ) {
      if (newest === undefined || isOlder(newest, candidate.operation)) newest = candidate.operation
    }
    if (newest !== undefined && isOlder(operation, newest)) {
      violations.push({ rule, operation, earlier: newest })
    }
  }
  return violations
}

const isOlder = (a: Operation, b: Operation): boolean => (a.version as number) < (b.version as number)

function checkOrigins (operations: readonly Operation[], writes: readonly Operation[]): Violation[] {
  const writeOf = new Map<number, Operation>()
  const violations: Violation[] = []
  for (const write of writes) {
    const first = writeOf.get(write.version as number)
    if (first === undefined) writeOf.set(write.version as number, write)
    else violations.push({ rule: 'twice', operation: write, earlier: first })
  }
  for (const operation of operations) {
    const write = operation.version === undefined ? undefined : writeOf.get(operation.version)
    if (write === undefined || operation.end < write.start) violations.push({ rule: 'unwritten', operation })
  }
  return violations
}

function checkConditions (writes: readonly Operation[], refused: readonly Operation[]): Violation[] {
  const violations: Violation[] = []
  for (const operation of writes) {
    const { version, ifMatch } = operation
    if (ifMatch !== undefined && version !== GONE && version !== ifMatch + 1) {
      violations.push({ rule: 'unmet condition', operation })
    }
  }
  for (const operation of refused) {
    const reason = writes.some(({ version, start }) =>
      (version as number) > (operation.version as number) && start < operation.end
    )
    if (!reason) violations.push({ rule: 'wrongly refused', operation })
  }
  return violations
}

/** Returns the earliest time at which all replicas could know a write. */
function toldAt ({ replica, start, end }: Operation, outages: readonly Outage[]): number {
  return outages.reduce(
    (at, outage) =>
      outage.replica === replica && start <= outage.to && end >= outage.from ? Math.max(at, outage.to) : at,
    end
  )
}

/** Describes a violation in one line. */
export function describeViolation ({ rule, operation, earlier }: Violation): string {
  return `${rule}: ${describe(operation)} ${RULES[rule]}${
    earlier === undefined ? '' : `; before it ${describe(earlier)}`
  }`
}

function describe ({ kind, replica, page, version, ifMatch, start, end }: Operation): string {
  const condition = ifMatch === undefined ? '' : ` if ${ifMatch}`
  const shown = version === undefined ? 'unknown content' : version === GONE ? 'gone' : `version ${version}`
  return `${kind} of ${page} on replica ${replica} from ${start.toFixed(1)} to ${
    end.toFixed(1)
  } ms (${shown}${condition})`
}
