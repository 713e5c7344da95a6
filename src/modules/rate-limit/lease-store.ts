import type { Result } from 'ioredis'
import type { RedisClient } from '../../infra/redis/redis-client.ts'

declare module 'ioredis' {
  interface RedisCommander<Context> {
    landfallLeases(numberOfKeys: number, ...keysAndArguments: (string | number)[]): Result<number[], Context>
  }
}

/** A reserve is at most 1/SHARE (25 %) of the remaining reads, so leases shrink with the budget. */
const SHARE = 4
/** The most windows in one run of the script. It blocks other Redis commands for less than a millisecond. */
const MAX_BATCH = 100
/** The script's arguments for all windows, its arguments per window, and its results per window. */
const COMMON_ARGUMENTS = 2
const ARGUMENTS = 10
const RESULTS = 5

// KEYS are windows, one per client. A window is a hash with the fields
//   e  its end, in milliseconds of Redis' clock
//   g  the reads that were granted and not returned
//   and one field for each process that may hold unspent reads.
//
// Waiting reads are granted first, then the reserve. If there are too few for the waiting reads, the
// unspent reads of other processes are recalled, and the caller asks again.
const LEASES = `
local holder, recall_channel = ARGV[1], ARGV[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local results = {}

for index, key in ipairs(KEYS) do
  local first = ${COMMON_ARGUMENTS} + (index - 1) * ${ARGUMENTS}
  local recall_name = ARGV[first + 1]               -- names the window in a recall
  local limit = tonumber(ARGV[first + 2])           -- reads in a window
  local new_window_ms = tonumber(ARGV[first + 3])   -- length of a window that begins now
  local waiting = tonumber(ARGV[first + 4])         -- reads that wait for an answer
  local reserve = tonumber(ARGV[first + 5])         -- reads wanted beyond the waiting ones
  local held = tonumber(ARGV[first + 6])            -- unspent reads that the process keeps
  local counted_locally = tonumber(ARGV[first + 7]) -- reads that it allowed without Redis
  local returned = tonumber(ARGV[first + 8])        -- unspent reads that it returns
  local returned_end = tonumber(ARGV[first + 9])    -- the end of the window of these reads
  local max_window_ms = tonumber(ARGV[first + 10])  -- a longer rest means that the clock was set back

  local window = redis.call('HMGET', key, 'e', 'g')
  local window_end, total = tonumber(window[1] or 0), tonumber(window[2] or 0)
  local is_open = window_end > now and window_end - now <= max_window_ms
  local granted, others = 0, 0

  if is_open and window_end == returned_end then total = total - returned end

  if not is_open and waiting == 0 and reserve == 0 then
    window_end, total = now, 0
  else
    if not is_open then
      window_end, total = now + new_window_ms, 0
      redis.call('DEL', key)
    end
    total = math.min(limit, total + counted_locally)
    local granted_waiting = math.min(waiting, limit - total)
    reserve = math.min(reserve, math.floor((limit - total - granted_waiting) / ${SHARE}))
    granted = granted_waiting + reserve
    total = total + granted

    local is_holder = reserve > 0 or held > 0
    if is_holder then
      redis.call('HSET', key, 'e', window_end, 'g', total, holder, '')
    else
      redis.call('HSET', key, 'e', window_end, 'g', total)
    end
    if not is_open then
      redis.call('PEXPIREAT', key, window_end)
    else
      if not is_holder then redis.call('HDEL', key, holder) end
      others = redis.call('HLEN', key) - 2 - (is_holder and 1 or 0)
      if granted_waiting < waiting and others > 0 then redis.call('PUBLISH', recall_channel, recall_name) end
    end
  end

  for _, result in ipairs({granted, total, window_end - now, window_end, others}) do
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
  /** The length of a window that begins now, in milliseconds. Shorter for a window that Redis has lost. */
  readonly newWindow?: number
  /** Reads that wait for an answer. They are spent when granted. */
  readonly needed: number
  /** Reads wanted beyond those that wait, so that later reads need no request. */
  readonly reserve: number
  /** Unspent reads that the process keeps. */
  readonly held: number
  /** Reads that it allowed while Redis was unreachable. */
  readonly countedLocally: number
}

export interface LeaseAnswer {
  readonly granted: number
  /** Reads granted to all processes in the window and not returned. */
  readonly total: number
  /** Time until the window ends, in milliseconds. */
  readonly leftMs: number
  /** When the window ends by Redis' clock. This identifies the window. */
  readonly end: number
  /** The number of other processes that may hold unspent reads. If reads have to wait, a recall is sent. */
  readonly others: number
}

/** Grants leases. */
export interface LeaseStore {
  /** Whether Redis was reachable when it was last used. */
  readonly reachable: boolean
  /** Whether this process receives recalls. Only then may it lease a reserve. */
  readonly hearsRecalls: boolean
  /** Requests a lease. @throws {RedisAwayError} when Redis is unreachable */
  ask(request: LeaseRequest): Promise<LeaseAnswer>
  /** Returns unspent reads of the window that ends at `end`. Never rejects; after a failure they are lost. */
  giveBack(request: LeaseRequest, reads: number, end: number): Promise<void>
  /** Calls the listener when another process recalls the unspent reads of a key. */
  onRecall(listener: (nameSpace: string, key: string) => void): void
}

interface Question {
  readonly request: LeaseRequest
  readonly returned: number
  readonly end: number
  readonly resolve: (answer: LeaseAnswer) => void
  readonly reject: (error: unknown) => void
}

/** Leases in Redis. Requests of one turn of the event loop share a command. */
export class RedisLeaseStore implements LeaseStore {
  readonly #redis: RedisClient
  readonly #channel: string
  readonly #holder: string
  #questions: Question[] = []

  /** @param holder identifies this process among those that share the limit */
  constructor (redis: RedisClient, channel: string, holder: string) {
    this.#redis = redis
    this.#channel = channel
    this.#holder = holder
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

  async giveBack (request: LeaseRequest, reads: number, end: number): Promise<void> {
    await this.#put(request, reads, end).catch(() => {})
  }

  onRecall (listener: (nameSpace: string, key: string) => void): void {
    this.#redis.on('message', (channel, message) => {
      if (channel !== this.#channel) return
      const space = message.indexOf(' ')
      listener(message.slice(0, space), message.slice(space + 1))
    })
  }

  #put (request: LeaseRequest, returned: number, end: number): Promise<LeaseAnswer> {
    return new Promise((resolve, reject) => {
      if (this.#questions.length === 0) {
        setImmediate(() => {
          this.#send()
        })
      }
      this.#questions.push({ request, returned, end, resolve, reject })
      if (this.#questions.length === MAX_BATCH) this.#send()
    })
  }

  #send (): void {
    const questions = this.#questions
    if (questions.length === 0) return // a full batch was already sent
    this.#questions = []
    for (const group of this.#redis.groups(questions, ({ request }) => windowKey(nameOf(request)))) {
      this.#sendGroup(group)
    }
  }

  #sendGroup (questions: readonly Question[]): void {
    const keys: string[] = []
    const values: (string | number)[] = [this.#holder, this.#channel]
    for (const { request, returned, end } of questions) {
      const name = nameOf(request)
      keys.push(windowKey(name))
      values.push(
        name,
        request.max,
        request.newWindow ?? request.timeWindow,
        request.needed,
        request.reserve,
        request.held,
        request.countedLocally,
        returned,
        end,
        request.timeWindow
      )
    }
    this.#redis.run(async (redis) => await redis.landfallLeases(keys.length, ...keys, ...values)).then(
      (answers) => {
        for (const [index, { resolve }] of questions.entries()) {
          const [granted, total, leftMs, end, others] = answers.slice(
            index * RESULTS,
            (index + 1) * RESULTS
          ) as [number, number, number, number, number]
          resolve({ granted, total, leftMs, end, others })
        }
      },
      (error: unknown) => {
        for (const { reject } of questions) reject(error)
      }
    )
  }
}

const nameOf = ({ nameSpace, key }: LeaseRequest): string => `${nameSpace} ${key}`

/** The name of a window in Redis. Its field `g` has the reads that processes have used or leased. */
export const windowKey = (name: string): string => `landfall:window:${name}`
