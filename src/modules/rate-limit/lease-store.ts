import type { Result } from 'ioredis'
import type { RedisClient } from '../../infra/redis/redis-client.ts'
import type { Members } from './members.ts'

declare module 'ioredis' {
  interface RedisCommander<Context> {
    landfallLeases(
      numberOfKeys: number,
      ...keysAndArguments: (string | number)[]
    ): Result<(number | string)[], Context>
  }
}

/** A reserve is at most 1/SHARE (25 %) of the remaining reads, so leases shrink with the budget. */
const SHARE = 4
/** The most windows in one run of the script. It blocks other Redis commands for less than a millisecond. */
const MAX_BATCH = 100
/** A window isn't moved by less than this, because clocks and messages are not more exact. */
const SAME_START_MS = 100
/** The script's arguments for all windows, its arguments per window, and its results per window. */
const COMMON_ARGUMENTS = 2
const ARGUMENTS = 12
const RESULTS = 6

// KEYS are windows, one per client. A window is a hash with the fields
//   e  its end, in milliseconds of Redis' clock
//   g  the reads that were granted and not returned, and those that processes have reported
//   i  its id: its first end
//   a  the end of the client's window before it, as far as known; it can't begin earlier
//   and one field for each process that has reported: 1 if it may hold unspent reads, else 0.
//
// Waiting reads are granted first, then the reserve. If there are too few for the waiting reads, the unspent
// reads of other processes and their shares are recalled, and the caller asks again.
const LEASES = `
local holder, channel = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local results = {}

-- Returns how many other processes may hold unspent reads, and all that have reported.
local function processes_of (key)
  local fields = redis.call('HGETALL', key)
  local others, reporters = 0, {}
  for at = 1, #fields, 2 do
    if #fields[at] > 1 then -- the window's own fields have one letter
      table.insert(reporters, fields[at])
      if fields[at] ~= holder and fields[at + 1] ~= '0' then others = others + 1 end
    end
  end
  return others, table.concat(reporters, ' ')
end

for index, key in ipairs(KEYS) do
  local first = ${COMMON_ARGUMENTS} + (index - 1) * ${ARGUMENTS}
  local name = ARGV[first + 1]                      -- names the window in messages
  local limit = tonumber(ARGV[first + 2])           -- reads in a window
  local rest_ms = tonumber(ARGV[first + 3])         -- until the end of the window as the process counts it
  local waiting = tonumber(ARGV[first + 4])         -- reads that wait for an answer
  local reserve = tonumber(ARGV[first + 5])         -- reads wanted beyond the waiting ones
  local held = tonumber(ARGV[first + 6])            -- unspent reads that the process keeps
  local counted_locally = tonumber(ARGV[first + 7]) -- reads that it allowed without Redis
  local before_ms = tonumber(ARGV[first + 8])       -- since the end of the window before; -1 if unknown
  local open_shares = tonumber(ARGV[first + 9])     -- reads that others may have allowed without Redis
  local returned = tonumber(ARGV[first + 10])       -- unspent reads that it returns
  local returned_id = tonumber(ARGV[first + 11])    -- the id of the window of these reads
  local window_ms = tonumber(ARGV[first + 12])      -- a longer rest means that the clock was set back

  local window = redis.call('HMGET', key, 'e', 'g', 'i', 'a')
  local window_end, total = tonumber(window[1] or 0), tonumber(window[2] or 0)
  local id, before_end = tonumber(window[3] or 0), tonumber(window[4] or 0)
  local is_open = window_end > now and window_end - now <= window_ms
  local granted, others, reporters = 0, 0, ''

  if is_open and id == returned_id then total = total - returned end

  if not is_open and waiting == 0 and reserve == 0 then
    window_end, total, id = now, 0, 0
  else
    if before_ms >= 0 then before_end = math.max(before_end, now - before_ms) end
    if not is_open then
      window_end, total = now + rest_ms, counted_locally
      id = window_end
      redis.call('DEL', key)
    else
      total = total + counted_locally
      -- The first read may have been earlier, at this process, but not in the window before.
      local new_end = window_end
      if counted_locally > 0 then new_end = math.min(new_end, now + rest_ms) end
      new_end = math.max(new_end, before_end + window_ms)
      if math.abs(new_end - window_end) > ${SAME_START_MS} then
        window_end = new_end
        redis.call('PEXPIREAT', key, window_end)
        redis.call('PUBLISH', channel, 'end ' .. window_end - now .. ' ' .. id .. ' ' .. name)
      end
    end
    total = math.min(limit, total)
    local free = math.max(0, limit - total - open_shares)
    local granted_waiting = math.min(waiting, free)
    reserve = math.min(reserve, math.floor((free - granted_waiting) / ${SHARE}))
    granted = granted_waiting + reserve
    total = total + granted

    local holds = (reserve > 0 or held > 0) and 1 or 0
    redis.call('HSET', key, 'e', window_end, 'g', total, 'i', id, 'a', before_end, holder, holds)
    if not is_open then redis.call('PEXPIREAT', key, window_end) end
    if granted_waiting < waiting then
      others, reporters = processes_of(key)
      if others > 0 or open_shares > 0 then
        redis.call('PUBLISH', channel, 'recall ' .. window_end - now .. ' ' .. id .. ' ' .. name)
      end
    end
  end

  for _, result in ipairs({granted, total, window_end - now, id, others, reporters}) do
    table.insert(results, result)
  end
end
return results
`

export const LEASE_SCRIPTS = { landfallLeases: { lua: LEASES } } as const

/** A process's request for a lease in one window, with its own counts. */
export interface LeaseRequest {
  /** The name space of the limit. */
  readonly nameSpace: string
  /** The key of the client. */
  readonly key: string
  readonly max: number
  /** Length of a window in milliseconds. */
  readonly timeWindow: number
  /** Time until the end of the window that this process has counted locally, in milliseconds. */
  readonly restOfWindow?: number
  /** Reads that wait for an answer. They are spent when granted. */
  readonly needed: number
  /** Reads wanted beyond those that wait, so that later reads need no request. */
  readonly reserve: number
  /** Unspent reads that the process keeps. */
  readonly held: number
  /** Reads that it allowed without Redis, and that it has not reported yet. */
  readonly countedLocally: number
  /** Time since the end of the client's window before, in milliseconds; undefined if it is not known. */
  readonly sinceWindowBefore?: number
  /** Reads that other processes may have allowed without Redis. They are not granted. */
  readonly openShares: number
}

export interface LeaseAnswer {
  readonly granted: number
  /** Reads granted to all processes in the window and not returned, and those that they have reported. */
  readonly total: number
  /** Time until the window ends, in milliseconds. */
  readonly leftMs: number
  /** Identifies the window. 0 if there is none: a request without reads doesn't begin one. */
  readonly id: number
  /** If reads have to wait: the number of other processes that may hold unspent reads. They are recalled. */
  readonly others: number
  /** If reads have to wait: the processes that have reported their reads in this window. */
  readonly reporters: ReadonlySet<string>
}

/** Messages about a window, from any process. */
export interface WindowMessages {
  /** Unspent reads and shares are recalled. */
  recall: (nameSpace: string, key: string, id: number, leftMs: number) => void
  /** The window ends at another time than it was known. */
  end: (nameSpace: string, key: string, id: number, leftMs: number) => void
}

/** Grants leases. */
export interface LeaseStore {
  /** Whether Redis was reachable when it was last used. */
  readonly reachable: boolean
  /** Whether this process receives recalls. Only then may it lease a reserve. */
  readonly hearsRecalls: boolean
  /** The processes that share the limits; undefined if this process doesn't take part in shares. */
  readonly members: Members | undefined
  /** Requests a lease. @throws {RedisAwayError} when Redis is unreachable */
  ask(request: LeaseRequest): Promise<LeaseAnswer>
  /** Returns unspent reads of a window. Never rejects; after a failure they are lost. */
  giveBack(request: LeaseRequest, reads: number, id: number): Promise<void>
  /** Calls the listeners for messages about windows. */
  onMessage(listeners: WindowMessages): void
}

interface Question {
  readonly request: LeaseRequest
  readonly returned: number
  readonly id: number
  readonly resolve: (answer: LeaseAnswer) => void
  readonly reject: (error: unknown) => void
}

/** Type, time left in milliseconds, id of the window, name space, key. */
const MESSAGE = /^(recall|end) (\d+) (\d+) (\S+) (.*)$/s

/** Leases in Redis. Requests of one turn of the event loop share a command. */
export class RedisLeaseStore implements LeaseStore {
  readonly members: Members | undefined
  readonly #redis: RedisClient
  readonly #channel: string
  readonly #holder: string
  #questions: Question[] = []

  /** @param holder identifies this process among those that share the limit */
  constructor (redis: RedisClient, channel: string, holder: string, members?: Members) {
    this.#redis = redis
    this.#channel = channel
    this.#holder = holder
    this.members = members
  }

  get reachable (): boolean {
    return this.#redis.reachable
  }

  get hearsRecalls (): boolean {
    return this.#redis.subscribed
  }

  ask (request: LeaseRequest): Promise<LeaseAnswer> {
    return this.#put(request, 0, 0)
  }

  async giveBack (request: LeaseRequest, reads: number, id: number): Promise<void> {
    await this.#put(request, reads, id).catch(() => {})
  }

  onMessage (listeners: WindowMessages): void {
    this.#redis.on('message', (channel, message) => {
      if (channel !== this.#channel) return
      const [, type, leftMs, id, nameSpace = '', key = ''] = MESSAGE.exec(message) ?? []
      if (type === 'recall' || type === 'end') listeners[type](nameSpace, key, Number(id), Number(leftMs))
    })
  }

  #put (request: LeaseRequest, returned: number, id: number): Promise<LeaseAnswer> {
    return new Promise((resolve, reject) => {
      if (this.#questions.length === 0) {
        setImmediate(() => {
          this.#send()
        })
      }
      this.#questions.push({ request, returned, id, resolve, reject })
      if (this.#questions.length === MAX_BATCH) this.#send()
    })
  }

  #send (): void {
    const questions = this.#questions
    this.#questions = [] // empty if a full batch was already sent
    for (const group of this.#redis.groups(questions, ({ request }) => windowKey(nameOf(request)))) {
      if (group.length > 0) this.#sendGroup(group)
    }
  }

  #sendGroup (questions: readonly Question[]): void {
    const keys: string[] = []
    const values: (string | number)[] = [this.#holder, this.#channel]
    for (const { request, returned, id } of questions) {
      const name = nameOf(request)
      keys.push(windowKey(name))
      values.push(
        name,
        request.max,
        request.restOfWindow ?? request.timeWindow,
        request.needed,
        request.reserve,
        request.held,
        request.countedLocally,
        request.sinceWindowBefore ?? -1,
        request.openShares,
        returned,
        id,
        request.timeWindow
      )
    }
    this.#redis.run(async (redis) => await redis.landfallLeases(keys.length, ...keys, ...values)).then(
      (results) => {
        for (const [index, { resolve }] of questions.entries()) {
          resolve(answerOf(results.slice(index * RESULTS, (index + 1) * RESULTS)))
        }
      },
      (error: unknown) => {
        for (const { reject } of questions) reject(error)
      }
    )
  }
}

function answerOf (results: readonly (number | string)[]): LeaseAnswer {
  const [granted, total, leftMs, id, others, reporters] = results as [
    number,
    number,
    number,
    number,
    number,
    string
  ]
  return { granted, total, leftMs, id, others, reporters: new Set(reporters.split(' ')) }
}

const nameOf = ({ nameSpace, key }: LeaseRequest): string => `${nameSpace} ${key}`

/** The name of a window in Redis. Its field `g` has the reads that processes have used or leased. */
export const windowKey = (name: string): string => `landfall:window:${name}`
