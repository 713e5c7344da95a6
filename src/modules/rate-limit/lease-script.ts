import type { Result } from 'ioredis'
import type { RedisClient } from '../../infra/redis/redis-client.ts'
import type { ClientWindow } from './client-table.ts'

declare module 'ioredis' {
  interface RedisCommander<Context> {
    landfallLeases(
      numberOfKeys: number,
      ...keysAndArguments: (string | number)[]
    ): Result<[number, number, number, number, number, number, number, string][], Context>
    landfallClearLeases(key: string, windowMs: number): Result<number, Context>
  }
}

/** Options, named as in @fastify/rate-limit. */
export interface LimitOptions {
  /** Distinguishes the windows of this limit from others. It must not contain spaces. */
  readonly nameSpace: string
  /** Reads in a window. */
  readonly max: number
  /** Length of a window from its first read, in milliseconds. */
  readonly timeWindow: number
}

/** Names a client's window. */
export interface WindowOfClient extends LimitOptions {
  readonly key: string
}

/** Names a client's window, and the process to which its reads are granted. */
export interface WindowOfProcess extends WindowOfClient {
  readonly processId: string
}

/** The id of a window that hasn't begun. */
export const NO_WINDOW = 0

/** An open window in Redis, as a process knows it. */
export interface KnownWindow {
  readonly id: number
  /** Reads granted to all processes or reported by them, when the process last asked. */
  readonly total: number
  /** The part of `total` that was granted to this process or reported by it. */
  readonly own: number
}

/** A process's request for a lease in one window, with its own counts. Numbers are reads, by default 0. */
export interface LeaseRequest extends WindowOfProcess {
  /** Time until the end of the window that this process has counted locally, in milliseconds. */
  readonly restOfWindow?: number
  /** Those that wait for a response. They are spent when granted. */
  readonly needed?: number
  /** Those wanted beyond the waiting ones, so that later reads need no request. */
  readonly reserve?: number
  /** Unspent ones that the process keeps. */
  readonly held?: number
  /** Unspent ones that it returns to the window that it knows. */
  readonly returned?: number
  /** Those that it allowed without Redis, and has not reported yet. */
  readonly unreported?: number
  /** Time since the end of the client's previous window, in milliseconds; undefined if it is not known. */
  readonly sincePreviousEnd?: number
  /** Those that other processes may have allowed without Redis. They are not granted. */
  readonly openShares?: number
  /** Those among `openShares` in first shares. */
  readonly firstReads?: number
  /** The open window as this process knows it: if Redis has lost it, it continues from there. */
  readonly known?: KnownWindow
  /** Whether the client has been listed as near its limit in this window. */
  readonly isListed?: boolean
  /** Whether this process knows that Redis has lost the window, so that `openShares` has all of its reads. */
  readonly knowsLoss?: boolean
  /**
   * Reads allowed by processes that have shut down gracefully, and by this one if it got no response to a
   * report. They count once, whoever reports them.
   */
  readonly handedOver?: ReadonlyMap<string, ClientWindow | undefined>
}

export interface LeaseResponse {
  readonly granted: number
  /** Reads granted to all processes in the window and not returned, and those that they have reported. */
  readonly total: number
  /** The part of `total` that was granted to this process or reported by it. */
  readonly own: number
  /** Time until the window ends, in milliseconds. */
  readonly leftMs: number
  /** Identifies the window. NO_WINDOW if there is none: a request without reads doesn't begin one. */
  readonly id: number
  /** Whether nothing was granted because Redis has lost the window. Then all processes have to report. */
  readonly withheld: boolean
  /** Whether this request put the client on the list of those near their limit. */
  readonly isListed?: boolean
  /** If reads have to wait: the number of other processes that may hold unspent reads. They are recalled. */
  readonly others: number
  /** If reads have to wait: the processes that have reported their reads in this window. */
  readonly reporters: ReadonlySet<string>
}

/** A reserve is at most a quarter of the remaining reads, so that other processes get some, too. */
const RESERVE_DIVISOR = 4
/** Smaller differences don't move a window: clocks and messages are not that exact. */
const SAME_START_MS = 100
/** If a window has more fields than this, those of ended processes are removed. */
const MAX_FIELDS = 200
/** The script's arguments per window. */
const ARGUMENTS = 17

// KEYS are windows, one per client. A window is a hash with the fields
//   e  its end, in milliseconds of Redis' clock
//   g  the reads that were granted and not returned, and those that processes have reported
//   i  its id: the end that it had when it began
//   o  only if Redis lost the window: the reads of other processes in `g`, until they report them again
//   p  the end of the client's previous window, as far as known; this one can't begin earlier
//   and one field for each process: the id of the last window that it has reported to, with a minus sign if
//   it holds no unspent reads of it. Others report for a process that has shut down gracefully.
// It is kept for one window's length after its end, so that the next window does not overlap with it.
//
// Waiting reads are granted first, then the reserve. If there are too few for the waiting reads, the unspent
// reads of other processes and their shares are recalled, and the caller asks again.
//
// A window that Redis has lost, for example by eviction, continues with what each process knows of it. Before
// reads of it are granted, the message "lost" asks all processes to report.
const LEASES = `
local channel = ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local results = {}

-- The fields of processes: the window that one has reported to last, and whether it may hold reads of that.
local function reported_window(field) return math.abs(tonumber(field) or 0) end
local function may_hold_reads(field) return (tonumber(field) or 0) > 0 end

-- Returns how many other processes may hold unspent reads of a window, and the ids of all processes that have
-- reported to it, whose shares are no longer open.
local function processes_of (key, id, process)
  local fields = redis.call('HGETALL', key)
  local others, reporters = 0, {}
  for at = 1, #fields, 2 do
    local name, field = fields[at], fields[at + 1]
    if #name > 1 and reported_window(field) == id then -- the window's own fields have one letter
      table.insert(reporters, name)
      if name ~= process and may_hold_reads(field) then others = others + 1 end
    end
  end
  return others, table.concat(reporters, ' ')
end

for index, key in ipairs(KEYS) do
  local offset = 1 + (index - 1) * ${ARGUMENTS}      -- the channel comes first
  local name = ARGV[offset + 1]                      -- names the window in messages
  local limit = tonumber(ARGV[offset + 2])           -- reads in a window
  local rest_ms = tonumber(ARGV[offset + 3])         -- until the end of the window as the process counts it
  local waiting = tonumber(ARGV[offset + 4])         -- reads that wait for a response
  local reserve = tonumber(ARGV[offset + 5])         -- reads wanted beyond the waiting ones
  local held = tonumber(ARGV[offset + 6])            -- unspent reads that the process keeps
  local unreported = tonumber(ARGV[offset + 7])      -- reads that it allowed without Redis
  local since_previous_ms = tonumber(ARGV[offset + 8]) -- since the end of the previous window, if known
  local open_shares = tonumber(ARGV[offset + 9])     -- reads that others may have allowed without Redis
  local returned = tonumber(ARGV[offset + 10])       -- unspent reads that it returns
  local known_id = tonumber(ARGV[offset + 11])       -- the id of the open window that the process knows, or 0
  local window_ms = tonumber(ARGV[offset + 12])      -- a longer rest means that the clock was set back
  local known = tonumber(ARGV[offset + 13])          -- the total of that window when the process last asked
  local own = tonumber(ARGV[offset + 14])            -- the part of it that was granted to the process
  local knows_loss = tonumber(ARGV[offset + 15]) == 1 -- it knows that Redis lost the window: see open_shares
  local process = ARGV[offset + 16]                  -- the id of the process
  local handed_over = ARGV[offset + 17]              -- 'process=reads' of stopped processes, and resent ones

  local window = redis.call('HMGET', key, 'e', 'g', 'i', 'p', 'o', process)
  local window_end, total = tonumber(window[1] or 0), tonumber(window[2] or 0)
  local id, previous_end = tonumber(window[3] or 0), tonumber(window[4] or 0)
  local is_open = window_end > now and window_end - now <= window_ms
  local granted, others, reporters = 0, 0, ''

  -- A damaged window counts as used up: without an id, nobody could report to it.
  if is_open and id == 0 then id, total = window_end, limit end
  -- The window that the process knows has ended, if it is the last one, or an open one has followed it.
  local has_ended = id == known_id and not is_open
  if id ~= known_id then has_ended = is_open and previous_end > known_id - window_ms / 2 end
  if has_ended then known_id, known, own, returned = 0, 0, 0, 0 end

  local is_lost = is_open and window[5] or not is_open and known_id > 0
  local withheld = is_lost and not (is_open and knows_loss)
  local others_of_lost = tonumber(window[5] or 0)
  if not is_open then
    id, total, others_of_lost = known_id, known - returned, known - own
  elseif reported_window(window[6]) ~= id then
    local counted = math.min(own - returned, others_of_lost)
    total, others_of_lost = total + own - returned - counted, others_of_lost - counted
  elseif id == known_id then
    total = total - returned
  end
  own = own - returned + unreported

  local reported_for = {}
  for stopped, reads in string.gmatch(handed_over, '(%S+)=(%d+)') do
    local is_resent = stopped == process
    if is_resent then own = own + tonumber(reads) end
    if not is_open or reported_window(redis.call('HGET', key, stopped)) ~= id then
      local counted = math.min(tonumber(reads), others_of_lost)
      others_of_lost = others_of_lost - counted
      unreported = unreported + tonumber(reads) - counted
      if not is_resent then table.insert(reported_for, stopped) end
    end
  end

  if not is_open and waiting == 0 and reserve == 0 and total <= 0 then
    window_end, total, id = now, 0, 0
  else
    if since_previous_ms then previous_end = math.max(previous_end, now - since_previous_ms) end
    if window_end <= now then previous_end = math.max(previous_end, window_end) end
    previous_end = math.min(previous_end, now) -- the clock may have been set back
    if not is_open then
      total = total + unreported
      window_end = math.max(now + rest_ms, previous_end + window_ms)
      if id == 0 then id = window_end end
      if redis.call('HLEN', key) > ${MAX_FIELDS} then redis.call('DEL', key) end -- of processes that have ended
    else
      total = total + unreported
      -- The first read may have been earlier, at this process, but not in the previous window.
      local new_end = window_end
      if unreported > 0 then new_end = math.min(new_end, now + rest_ms) end
      new_end = math.max(new_end, previous_end + window_ms)
      if math.abs(new_end - window_end) > ${SAME_START_MS} then
        window_end = new_end
        redis.call('PEXPIREAT', key, window_end + window_ms)
        redis.call('PUBLISH', channel, 'end ' .. window_end - now .. ' ' .. id .. ' ' .. name)
      end
    end
    total = math.min(limit, total)
    if withheld then open_shares = limit end
    local free = math.max(0, limit - total - open_shares)
    local granted_waiting = math.min(waiting, free)
    reserve = math.min(reserve, math.floor((free - granted_waiting) / ${RESERVE_DIVISOR}))
    granted = granted_waiting + reserve
    total, own = total + granted, own + granted

    local reported_id = (reserve > 0 or held > 0) and id or -id
    redis.call('HSET', key, 'e', window_end, 'g', total, 'i', id, 'p', previous_end, process, reported_id)
    if is_lost then redis.call('HSET', key, 'o', others_of_lost)
    elseif window[5] then redis.call('HDEL', key, 'o') end
    for _, stopped in ipairs(reported_for) do redis.call('HSET', key, stopped, -id) end
    if not is_open then redis.call('PEXPIREAT', key, window_end + window_ms) end
    if granted_waiting < waiting then
      others, reporters = processes_of(key, id, process)
      if others > 0 or open_shares > 0 then
        local message = withheld and 'lost ' or 'recall '
        redis.call('PUBLISH', channel, message .. window_end - now .. ' ' .. id .. ' ' .. name)
      end
    end
  end

  results[index] = {granted, total, own, window_end - now, id, withheld and 1 or 0, others, reporters}
end
return results
`

// Clears a window, and returns whether there was one. A new one says that everything is counted which
// processes know of a window that Redis has lost.
const CLEAR = `
local key, window_ms = KEYS[1], tonumber(ARGV[1])
if redis.call('EXISTS', key) == 1 then
  redis.call('HSET', key, 'g', 0)
  return 1
end
local time = redis.call('TIME')
local window_end = time[1] * 1000 + math.floor(time[2] / 1000) + window_ms
redis.call('HSET', key, 'e', window_end, 'g', 0, 'i', window_end, 'o', 1e9)
redis.call('PEXPIREAT', key, window_end + window_ms)
return 0
`

export const LEASE_SCRIPTS = {
  landfallLeases: { lua: LEASES },
  landfallClearLeases: { numberOfKeys: 1, lua: CLEAR }
} as const

/**
 * Runs the script.
 *
 * @throws {RedisAwayError}
 */
export async function runLeases (
  redis: RedisClient,
  channel: string,
  requests: readonly LeaseRequest[]
): Promise<LeaseResponse[]> {
  const keys = requests.map((request) => windowKey(nameOf(request)))
  const values = requests.flatMap((request) => [
    nameOf(request),
    request.max,
    request.restOfWindow ?? request.timeWindow,
    request.needed ?? 0,
    request.reserve ?? 0,
    request.held ?? 0,
    request.unreported ?? 0,
    request.sincePreviousEnd ?? '',
    request.openShares ?? 0,
    request.returned ?? 0,
    request.known?.id ?? NO_WINDOW,
    request.timeWindow,
    request.known?.total ?? 0,
    request.known?.own ?? 0,
    request.knowsLoss === true ? 1 : 0,
    request.processId,
    [...request.handedOver ?? []].map(([processId, window]) => `${processId}=${window?.used ?? 0}`)
      .join(' ')
  ])
  const results = await redis.run(async (redis) =>
    await redis.landfallLeases(keys.length, ...keys, channel, ...values)
  )
  return results.map(([granted, total, own, leftMs, id, withheld, others, reporters]) => ({
    granted,
    total,
    own,
    leftMs,
    id,
    withheld: withheld === 1,
    others,
    reporters: new Set(reporters.split(' '))
  }))
}

/** Names a window in messages. */
export const nameOf = ({ nameSpace, key }: WindowOfClient): string => `${nameSpace} ${key}`

/** The name of a window in Redis. Its field `g` has the reads that processes have leased or reported. */
export const windowKey = (name: string): string => `landfall:window:2:${name}`
