// Checks what clients of several replicas saw of some pages against what the service promises about it. Pure: it gets
// what was done, and when, by one clock for all of them.

/** The version of a page that is deleted: newer than any. */
export const GONE = Infinity

/** Something that a client asked for and got an answer to. */
export interface Operation {
  /**
   * - `write`: created or replaced the page, or deleted it (`GONE`)
   * - `refused`: a conditional write that failed, with the version that it demanded
   * - `read`: the public read, `GONE` for a 404
   * - `manage`: an answer of a management route that shows the page's version, `GONE` for a 404
   */
  readonly kind: 'write' | 'refused' | 'read' | 'manage'
  readonly replica: number
  readonly page: string
  /** What was written or seen; undefined for what nobody wrote. */
  readonly version: number | undefined
  /** The version that a conditional write demanded. */
  readonly ifMatch?: number | undefined
  /** When it was sent and when it was answered, in milliseconds. */
  readonly start: number
  readonly end: number
}

/** A time in which a replica could not tell the others of its writes, in milliseconds of the operations' clock. */
export interface Outage {
  readonly replica: number
  readonly from: number
  readonly to: number
}

export interface Promises {
  /** Longest time after the answer to a write, or after the writer's outage, until all replicas show it, in milliseconds. */
  readonly boundMs: number
  readonly outages?: readonly Outage[]
}

const RULES = {
  unwritten: 'shows what nobody had written',
  backwards: 'shows an older version than an earlier read of the same replica',
  'own write': 'does not show what was written on the same replica before',
  stale: 'does not show what was written long enough before',
  'management read': 'does not show what was written or shown by a management route before',
  order: 'is an older version than one that was written before it began',
  twice: 'was written a second time',
  'unmet condition': 'was written over another version than If-Match demanded',
  'wrongly refused': 'was refused while the version that If-Match demanded was the newest'
} as const

export type Rule = keyof typeof RULES

export interface Violation {
  readonly rule: Rule
  readonly operation: Operation
  /** What it contradicts. */
  readonly earlier?: Operation
}

/**
 * Finds everything in a history that breaks a promise: per replica versions don't go backwards, own writes are read at
 * once, others' within the bound, nothing comes after a deletion, what is shown was written, and conditional writes
 * succeed exactly where their condition holds. Of operations that overlap in time any order is right.
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
  const of = (...kinds: Operation['kind'][]) => operations.filter(({ kind, version }) => kinds.includes(kind) && version !== undefined)
  const writes = of('write')
  const reads = of('read')
  const management = of('manage')
  const atEnd = (earlier: readonly Operation[]) => earlier.map((operation) => ({ operation, at: operation.end }))
  const violations: Violation[] = [
    ...checkOrigins(operations, writes),
    ...older('stale', writes.map((operation) => ({ operation, at: toldAt(operation, outages) + boundMs })), reads),
    ...older('management read', atEnd([...writes, ...management]), management),
    ...older('order', atEnd(writes), writes),
    ...checkConditions(writes, of('refused'))
  ]
  for (const replica of new Set(reads.map(({ replica }) => replica))) {
    const here = (operation: Operation): boolean => operation.replica === replica
    const readsHere = reads.filter(here)
    violations.push(...older('backwards', atEnd(readsHere), readsHere), ...older('own write', atEnd(writes.filter(here)), readsHere))
  }
  return violations
}

/** What of `later` has an older version than something of `earlier` that was settled (`at`) before it began. */
function older (rule: Rule, earlier: { operation: Operation, at: number }[], later: readonly Operation[]): Violation[] {
  const settled = earlier.sort((a, b) => a.at - b.at)
  const violations: Violation[] = []
  let newest: Operation | undefined
  let next = 0
  for (const operation of later.toSorted((a, b) => a.start - b.start)) {
    for (let candidate = settled[next]; candidate !== undefined && candidate.at < operation.start; candidate = settled[++next]) {
      if (newest === undefined || isOlder(newest, candidate.operation)) newest = candidate.operation
    }
    if (newest !== undefined && isOlder(operation, newest)) violations.push({ rule, operation, earlier: newest })
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
    if (ifMatch !== undefined && version !== GONE && version !== ifMatch + 1) violations.push({ rule: 'unmet condition', operation })
  }
  for (const operation of refused) {
    const reason = writes.some(({ version, start }) => (version as number) > (operation.version as number) && start < operation.end)
    if (!reason) violations.push({ rule: 'wrongly refused', operation })
  }
  return violations
}

/** When a write could first have been heard of everywhere. */
function toldAt ({ replica, start, end }: Operation, outages: readonly Outage[]): number {
  return outages.reduce((at, outage) => outage.replica === replica && start <= outage.to && end >= outage.from ? Math.max(at, outage.to) : at, end)
}

/** The longest time after a write for which a read still showed an older version, in milliseconds; 0 if none did. */
export function longestStaleness (operations: readonly Operation[], outages: readonly Outage[] = []): number {
  let longest = 0
  for (const ofPage of byPage(operations)) {
    const writes = ofPage.filter(({ kind, version }) => kind === 'write' && version !== undefined)
      .map((operation) => ({ version: operation.version as number, at: toldAt(operation, outages) }))
      .sort((a, b) => b.version - a.version)
    const reads = ofPage.filter(({ kind, version }) => kind === 'read' && version !== undefined).sort((a, b) => (b.version as number) - (a.version as number))
    let next = 0
    let overtakenAt = Infinity
    for (const { version, start } of reads) {
      for (let write = writes[next]; write !== undefined && write.version > (version as number); write = writes[++next]) overtakenAt = Math.min(overtakenAt, write.at)
      longest = Math.max(longest, start - overtakenAt)
    }
  }
  return longest
}

/** A violation in one line. */
export function describeViolation ({ rule, operation, earlier }: Violation): string {
  return `${rule}: ${describe(operation)} ${RULES[rule]}${earlier === undefined ? '' : `; before it ${describe(earlier)}`}`
}

function describe ({ kind, replica, page, version, ifMatch, start, end }: Operation): string {
  const condition = ifMatch === undefined ? '' : ` if ${ifMatch}`
  const shown = version === undefined ? 'unknown content' : version === GONE ? 'gone' : `version ${version}`
  return `${kind} of ${page} on replica ${replica} from ${start.toFixed(1)} to ${end.toFixed(1)} ms (${shown}${condition})`
}
