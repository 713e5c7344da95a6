import type { Result } from 'ioredis'
import { FORMAT } from './heartbeats.ts'

// How a limit is divided: 8 twelfths are shares, 3 are first shares, and the rest is leased only.

declare module 'ioredis' {
  interface RedisCommander<Context> {
    landfallFirstShare(members: string, id: string, beats: number): Result<number, Context>
  }
}

/** Twelfths of a limit in all shares together, and in all first shares. */
const SHARED = 8
const FIRST_SHARES = 3
const twelfths = (max: number, parts: number): number => Math.floor(max * parts / 12)

/** Returns the reads of a limit in all shares together, rounded down. */
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

export const SHARE_SCRIPTS = { landfallFirstShare: { numberOfKeys: 1, lua: FIRST_SHARE } } as const
