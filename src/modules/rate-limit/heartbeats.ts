// What processes say of themselves in Redis, once a second.

/**
 * The name in Redis: a hash with the last heartbeat of each process, in words separated by spaces. NUMBER
 * counts its heartbeats.
 *
 * - `NUMBER 3 … STATE` of a process that runs. STATE 1 means that it may have a share, 0 that it has none,
 *   `replaced` that it goes on as another process. Between them, `first=N` says that it has a first share of
 *   N twelfths (when it is replaced: it has handed over what it counted), `keeps=ID` that it keeps back
 *   the first share of a process, and `steady` that all others have counted it for longer than a window.
 * - `NUMBER HANDOVER MEMBER=AGE … left` of a process that has shut down gracefully and may be continued, with
 *   the members that it counted.
 * - `NUMBER/3/N left` of one that may not be continued, and had a first share of N twelfths, or 0.
 * - `NUMBER left` of one beside processes of release 0.2.0, which write this, and `NUMBER STATE`. Its
 *   handover has the format of that release.
 */
export const MEMBERS_KEY = 'landfall:members:2'
/** The format of heartbeats, and of handovers that may be continued. */
export const FORMAT = '3'
/** How long a heartbeat is valid, in milliseconds. */
export const VALID_MS = 3000

const KEEPS = 'keeps='
const STEADY = 'steady'
const FIRST_SHARE_WORD = /(?: first=|\/)(\d+)(?= )/
const CURRENT = new RegExp(`^\\d+[ /]${FORMAT}\\b`)

/** A process that has shut down gracefully. */
export interface Departed {
  readonly id: string
  /** Version and id of its handover. */
  readonly handover: string
  /** If another process may continue with its share: what its last heartbeat leaves to that one. */
  readonly legacy?: {
    readonly beats: number
    /** The members that it counted, and how long before it had seen their last heartbeats, in ms. */
    readonly counted: readonly (readonly [id: string, ageMs: number])[]
  }
}

/** What a heartbeat says. */
export interface Heartbeat {
  readonly text: string
  /** Whether the process may have had a share within the last window, or may have one soon. */
  readonly mayHaveShare: boolean
  /** Whether every process that had a share within the last window has counted it since then. */
  readonly isSteady: boolean
  /** Its first share, in twelfths of a limit. */
  readonly firstShare: number
  /** The processes whose first shares it keeps back. */
  readonly keepsBack: readonly string[]
  /** If it has shut down gracefully: what it has handed over, so that its share is not open. */
  readonly departed?: Departed | undefined
  /** Whether it goes on as another member. It has never had a share. */
  readonly isReplaced: boolean
  /** Whether it knows of adoptions and first shares, as release 0.2.0 doesn't. */
  readonly isCurrent: boolean
}

/** Reads a heartbeat of this release, or of one before. */
export function parse (id: string, text: string): Heartbeat {
  const words = text.split(' ')
  const state = words.at(-1)
  const firstShare = Number(FIRST_SHARE_WORD.exec(text)?.[1] ?? 0)
  const isReplaced = state === 'replaced'
  const isCurrent = CURRENT.test(text)
  return {
    text,
    mayHaveShare: state === '1',
    isSteady: words.includes(STEADY),
    firstShare,
    keepsBack: words.flatMap((word) => word.startsWith(KEEPS) ? [word.slice(KEEPS.length)] : []),
    isReplaced,
    isCurrent,
    departed: state === 'left' || (isReplaced && firstShare > 0) ? departedOf(id, words, isCurrent)
      : undefined
  }
}

function departedOf (id: string, words: readonly string[], isCurrent: boolean): Departed {
  const [beats, handover = '', ...counted] = words.slice(0, -1)
  const isContinuable = words.at(-1) === 'left' && words.length > 2
  if (!isContinuable) return { id, handover: `${isCurrent ? FORMAT : '1'}:${id}` }
  const members = counted.map((word) => word.split('=') as [string, string])
  return {
    id,
    handover,
    legacy: { beats: Number(beats), counted: members.map(([member, age]) => [member, Number(age)]) }
  }
}

/** Writes the heartbeat of a process that runs, or that goes on as another one. */
export const running = (
  beats: number,
  state: '0' | '1' | 'replaced',
  { firstShare, keepsBack, isSteady }: Pick<Heartbeat, 'firstShare' | 'keepsBack' | 'isSteady'>
): string =>
  [
    beats,
    FORMAT,
    ...firstShare > 0 ? [`first=${firstShare}`] : [],
    ...keepsBack.map((id) => `${KEEPS}${id}`),
    ...isSteady ? [STEADY] : [],
    state
  ]
    .join(' ')

/** Writes the last heartbeat of a process that may be continued. */
export const leftForAnother = (
  beats: number,
  handover: string,
  counted: ReadonlyMap<string, number>
): string => [beats, handover, ...[...counted].map(([id, ageMs]) => `${id}=${ageMs}`), 'left'].join(' ')

/** Writes the last heartbeat of a process that may not be continued. */
export const left = (beats: number, handover: string, firstShare: number): string =>
  handover.startsWith(FORMAT) ? `${beats}/${FORMAT}/${firstShare} left` : `${beats} left`
