import type { Result } from 'ioredis'
import type { SharedRedis } from '../plugins/redis.ts'

declare module 'ioredis' {
  interface RedisCommander<Context> {
    landfallLeases (numberOfKeys: number, ...keysAndArguments: (string | number)[]): Result<number[], Context>
  }
}

/** A new lease takes at most this part of what is left in the window, so that leases shrink as the budget runs out. */
const SHARE = 4
/** Windows in one run of the script, which nobody else's commands interrupt: less than a millisecond. */
const MAX_BATCH = 100
/** What the script is told of each window, and what it tells of it. */
const ARGUMENTS = 10
const RESULTS = 5

// KEYS     the windows of some clients: each a hash of `e` its end (Redis' clock, in milliseconds), `g` the reads granted
//          and not handed back, and a field for each process that may hold unspent ones.
// ARGV     the process, the channel on which unspent reads are called back, then for each window: 1 its name in such a
//          call, 2 the limit, 3 the length of a window in milliseconds, 4 reads that wait for an answer, 5 reads wanted in
//          advance, 6 unspent reads that the process keeps, 7 reads it let pass on its own while Redis was away, 8 unspent
//          reads that it hands back, 9 the end of the window that those belong to, 10 the longest that a window may still
//          last: with more left of it, the clock has been set back.
// Returns  for each window: reads granted now, all granted, milliseconds left, the end, how many other processes may hold
//          unspent reads. Zeros when reads of a window that has ended are handed back.
//
// Waiting reads are spent at once and get whatever is left. Reads in advance get a share of the rest only. When reads
// that wait can't be granted and others hold some, those are called back; whoever asked then asks again.
const LEASES = `
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local answers = {}

for index, key in ipairs(KEYS) do
  local at = 2 + (index - 1) * ${ARGUMENTS}
  local max, needed, extra = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
  local window = redis.call('HMGET', key, 'e', 'g')
  local stop, total = tonumber(window[1] or 0), tonumber(window[2] or 0)
  local open = stop > now and stop - now <= tonumber(ARGV[at + 10])
  local granted, others = 0, 0

  if open and stop == tonumber(ARGV[at + 9]) then total = total - tonumber(ARGV[at + 8]) end
  if not open and needed == 0 and extra == 0 then
    stop, total = now, 0
  else
    if not open then
      stop, total = now + tonumber(ARGV[at + 3]), 0
      redis.call('DEL', key)
    end
    total = math.min(max, total + tonumber(ARGV[at + 7]))
    local sure = math.min(needed, max - total)
    extra = math.min(extra, math.floor((max - total - sure) / ${SHARE}))
    granted = sure + extra
    total = total + granted

    local holds = extra > 0 or tonumber(ARGV[at + 6]) > 0
    if holds then redis.call('HSET', key, 'e', stop, 'g', total, ARGV[1], '')
    else redis.call('HSET', key, 'e', stop, 'g', total) end
    if not open then
      redis.call('PEXPIREAT', key, stop)
    else
      if not holds then redis.call('HDEL', key, ARGV[1]) end
      others = redis.call('HLEN', key) - (holds and 3 or 2)
      if sure < needed and others > 0 then redis.call('PUBLISH', ARGV[2], ARGV[at + 1]) end
    end
  end

  local first = (index - 1) * ${RESULTS}
  answers[first + 1], answers[first + 2], answers[first + 3], answers[first + 4], answers[first + 5] = granted, total, stop - now, stop, others
end
return answers
`

export const LEASE_SCRIPTS = { landfallLeases: { lua: LEASES } } as const

/** What a process asks for, and tells, about one window. */
export interface LeaseRequest {
  /** The limit's name space and the client's key. */
  readonly nameSpace: string
  readonly key: string
  readonly max: number
  /** Length of a window in milliseconds. */
  readonly timeWindow: number
  /** How long a new one is to last, in milliseconds: less, where it goes on from what a process knows. */
  readonly newWindow?: number
  /** Reads that wait, and are spent as soon as they are granted. */
  readonly needed: number
  /** Reads wanted in advance. */
  readonly extra: number
  /** Unspent reads that the process keeps. */
  readonly held: number
  /** Reads that it let pass while Redis was away. */
  readonly alone: number
}

export interface LeaseAnswer {
  readonly granted: number
  /** Reads granted in the window to all processes, and not handed back. */
  readonly total: number
  /** What is left of the window, in milliseconds. */
  readonly leftMs: number
  /** Names the window: its end by Redis' clock. */
  readonly end: number
  /** How many other processes may hold unspent reads. They have been asked for them if that made a difference. */
  readonly others: number
}

/** Where leases come from. */
export interface LeaseStore {
  /** Whether it is worth asking. */
  readonly reachable: boolean
  /** Whether this process hears when unspent reads are called back; only then it may take any in advance. */
  readonly hearsRecalls: boolean
  /** @throws {RedisAwayError} */
  ask (request: LeaseRequest): Promise<LeaseAnswer>
  /** Hands unspent reads back to the window that ends at `end`. Never rejects; what can't be handed back is lost. */
  giveBack (request: LeaseRequest, reads: number, end: number): Promise<void>
  /** Calls back when another process needs the unspent reads of a key. */
  onRecall (listener: (nameSpace: string, key: string) => void): void
}

interface Question {
  readonly request: LeaseRequest
  readonly returned: number
  readonly end: number
  readonly resolve: (answer: LeaseAnswer) => void
  readonly reject: (error: unknown) => void
}

/** Leases in Redis. What is asked in one turn of the event loop goes in one command. */
export class RedisLeaseStore implements LeaseStore {
  readonly #redis: SharedRedis
  readonly #channel: string
  readonly #holder: string
  #questions: Question[] = []

  /** @param holder names this process among all that share the limit */
  constructor (redis: SharedRedis, channel: string, holder: string) {
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
      if (this.#questions.length === 0) setImmediate(() => { this.#send() })
      this.#questions.push({ request, returned, end, resolve, reject })
      if (this.#questions.length === MAX_BATCH) this.#send()
    })
  }

  #send (): void {
    const questions = this.#questions
    if (questions.length === 0) return // a full batch went before its turn
    this.#questions = []
    const keys: string[] = []
    const values: (string | number)[] = [this.#holder, this.#channel]
    for (const { request, returned, end } of questions) {
      const name = `${request.nameSpace} ${request.key}`
      keys.push(`landfall:window:${name}`)
      values.push(name, request.max, request.newWindow ?? request.timeWindow, request.needed, request.extra, request.held, request.alone, returned, end, request.timeWindow)
    }
    this.#redis.run(async (redis) => await redis.landfallLeases(keys.length, ...keys, ...values)).then(
      (answers) => {
        for (const [index, { resolve }] of questions.entries()) {
          const [granted, total, leftMs, end, others] = answers.slice(index * RESULTS, (index + 1) * RESULTS) as [number, number, number, number, number]
          resolve({ granted, total, leftMs, end, others })
        }
      },
      (error: unknown) => { for (const { reject } of questions) reject(error) }
    )
  }
}
