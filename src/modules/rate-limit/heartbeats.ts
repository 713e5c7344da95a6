import type { Result } from 'ioredis'

declare module 'ioredis' {
  interface RedisCommander<Context> {
    landfallFirstShare(members: string, id: string, beats: number): Result<number, Context>
  }
}

/**
 * The name in Redis: a hash with the last heartbeat of each process, in words separated by spaces. NUMBER
 * counts its heartbeats.
 *
 * - `NUMBER 3 … STATE` of a process that runs. STATE 1 means that it may have a share, 0 that it has none,
 *   `replaced` that it goes on as another process. Between them, `first=N` says that it has a first share of
 *   N twelfths (when it is replaced: it has handed over what it counted), and `keeps=ID` that it keeps back
 *   the first share of a process.
 * - `NUMBER HANDOVER MEMBER=AGE … left` of a process that has shut down gracefully and may be continued, with
 *   the members that it counted.
 * - `NUMBER/3/N left` of one that may not be continued, and had a first share of N twelfths, or 0.
 * - `NUMBER left` of one beside processes of release 0.2.0, which write this, and `NUMBER STATE`. Its
 *   handover has the format of that release.
 */
export const MEMBERS_KEY = 'landfall:members:2'
/** The format of heartbeats, and of handovers that may be continued. */
export const FORMAT = '3'

/** The word of a heartbeat before the id of a process whose first share is kept back. */
export const KEEPS = 'keeps='
const FIRST_SHARE_WORD = /(?: first=|\/)(\d+)(?= )/
const CURRENT = new RegExp(`^\\d+[ /]${FORMAT}\\b`)
/** How long a heartbeat is valid, in milliseconds. */
export const VALID_MS = 3000

/** A process that has shut down gracefully. */
export interface Departed {
  readonly id: string
  /** Version and id of its handover. */
  readonly handover: string
  /** Its last heartbeat, if another process may continue with its share. */
  readonly heartbeat?: string
}

/** What a heartbeat says. */
export interface Heartbeat {
  readonly heartbeat: string
  /** Whether the process may have had a share within the last window, or may have one soon. */
  mayHaveShare: boolean
  /** Its first share, in twelfths of a limit. */
  readonly firstShare: number
  /** The processes whose first shares it keeps back. */
  readonly keepsBack: readonly string[]
  /** If it has shut down gracefully: what it has handed over, so that its share is not open. */
  departed?: Departed
  /** Whether it goes on as another member. It has never had a share. */
  readonly isReplaced: boolean
  /** Whether it knows of adoptions and first shares, as release 0.2.0 doesn't. */
  readonly isCurrent: boolean
}

/** Reads a heartbeat of this release, or of one before. */
export function parse (id: string, heartbeat: string): Heartbeat {
  const words = heartbeat.split(' ')
  const state = words.at(-1)
  const [, format = ''] = words
  const firstShare = Number(FIRST_SHARE_WORD.exec(heartbeat)?.[1] ?? 0)
  const isReplaced = state === 'replaced'
  const isContinuable = state === 'left' && words.length > 2
  const isCurrent = CURRENT.test(heartbeat)
  const departed = isContinuable ? { id, handover: format, heartbeat }
    : { id, handover: `${isCurrent ? FORMAT : '1'}:${id}` }
  return {
    heartbeat,
    mayHaveShare: state === '1',
    firstShare,
    keepsBack: words.flatMap((word) => word.startsWith(KEEPS) ? [word.slice(KEEPS.length)] : []),
    isReplaced,
    isCurrent,
    ...(state === 'left' || (isReplaced && firstShare > 0)) && { departed }
  }
}

/** Twelfths of a limit: all shares together, and all first shares. The rest is leased. */
const SHARED = 8
const FIRST_SHARES = 3
const twelfths = (max: number, parts: number): number => Math.floor(max * parts / 12)

/**
 * Returns the reads of a limit in all shares together, rounded down. The rest is for reads beyond the shares,
 * so that few need a recall, and for first shares.
 */
export const sharedReads = (max: number): number => twelfths(max, SHARED)

/** Returns the reads of a limit in a first share, rounded down; by default those in all first shares. */
export const firstShareReads = (max: number, parts = FIRST_SHARES): number => twelfths(max, parts)

// Gives a process half of what other first shares leave, rounded up. Returns its twelfths: 0 if there are
// none left, or if a process doesn't know of first shares.
const FIRST_SHARE = `
local members, own_id, beats = KEYS[1], ARGV[1], ARGV[2]
local heartbeats = redis.call('HGETALL', members)
local free = ${FIRST_SHARES}
for at = 1, #heartbeats, 2 do
  if heartbeats[at] ~= own_id then
    if not string.find(heartbeats[at + 1], '^%d+[ /]${FORMAT}%f[^%d]') then return 0 end
    local first = string.match(heartbeats[at + 1], ' first=(%d+) ') or string.match(heartbeats[at + 1], '/(%d+) ')
    free = free - tonumber(first or 0)
  end
end
local share = math.ceil(math.max(free, 0) / 2)
if share > 0 then
  redis.call('HSET', members, own_id, table.concat({beats, '${FORMAT}', 'first=' .. share, '0'}, ' '))
end
return share
`

export const MEMBER_SCRIPTS = { landfallFirstShare: { numberOfKeys: 1, lua: FIRST_SHARE } } as const
