import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import type { Test } from 'tap'
import { clock } from '../../../src/infra/system/clock.ts'
import type { LeasedLimit } from '../../../src/modules/rate-limit/leased-limit.ts'
import { pass, settableClock, startReplicas, stop, take, trues,
  type Replica } from '../../helpers/limit-replicas.ts'
import { claimRedis } from '../../helpers/servers.ts'
import type { Teardown } from '../../shared/guardian.ts'

// Processes with a limit that start and stop, one by one or in random histories.

export const LIMIT = 30

export interface Running {
  readonly replica: Replica
  readonly limit: LeasedLimit
}

export const run = (replica: Replica): Running => ({ replica, limit: replica.limit(LIMIT) })
export const halt = async ({ replica, limit }: Running): Promise<void> => await stop(replica, [limit])
export const shareOf = ({ limit }: Running): number => limit.share(clock.now())

/** Ends a process without a word to the others. */
export function kill ({ replica }: Running): void {
  replica.members.close()
  replica.redis.close()
}

/** Beside a killed process, a start waits this long for its first share; the service waits for a second. */
export const BESIDE_KILLED_MS = 20

/** Starts a process as the service does: it adopts what it can before it serves. */
export async function join (
  t: Teardown,
  url: string,
  channelOf: Running,
  maxStartMs = Infinity
): Promise<Running> {
  const [replica] = await startReplicas(t, [url], { channelOf: channelOf.replica })
  const running = run(replica!)
  const { members } = replica!
  const { onNew } = members
  if (maxStartMs < Infinity) members.onNew = async () => await Promise.race([onNew(), sleep(maxStartMs)])
  await members.start()
  return running
}

const event = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant('read' as const),
      at: fc.array(fc.nat(3), { minLength: 1, maxLength: 6 }),
      client: fc.nat(3)
    })
  },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('stop' as const), at: fc.nat(3) }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('start' as const), at: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('replace' as const), at: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('kill' as const), at: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('beat' as const) }) }
)
type Event = typeof event extends fc.Arbitrary<infer Type> ? Type : never

/**
 * Restarts four processes in random ways under the reads of four clients. Each client gets exactly its limit,
 * or less if a process was killed. If Redis was too slow, so that a process counted alone, another history
 * takes its place.
 *
 * @param histories their number
 * @param seconds after which no further history begins
 */
export async function testHistories (t: Test, histories: number, seconds = Infinity): Promise<void> {
  const url = await claimRedis(t)
  const [admin] = await startReplicas(t, [url])
  const { commands } = admin!.redis
  const offset = settableClock(t)
  let adopted = 0
  const check = async (events: readonly Event[], waits: readonly number[]): Promise<void> => {
    const replicas = await startReplicas(t, Array<string>(4).fill(url))
    await pass(offset, 66, replicas)
    await Promise.all(replicas.map(async ({ members }) => await members.start()))
    const slots: (Running | undefined)[] = replicas.map(run)
    const passed = [0, 0, 0, 0]
    const channelOf = slots[0]!
    let isKilled = false
    const here = (): Running[] => slots.filter((running) => running !== undefined)
    const start = async (): Promise<Running> => {
      const next = await join(t, url, channelOf, isKilled ? BESIDE_KILLED_MS : Infinity)
      replicas.push(next.replica)
      next.replica.store.delays = [...waits]
      if (!next.replica.members.isNew) adopted++
      return next
    }
    const read = async (client: number, at: readonly number[]): Promise<void> => {
      const running = here()
      if (running.length === 0) return
      const responses = await Promise
        .all(at.map(async (index) => await take(running[index % running.length]!.limit, `${client}`)))
      passed[client]! += trues(responses)
    }
    const underWay: Promise<unknown>[] = []
    const begin = (work: Promise<unknown>): void => {
      work.catch(() => {}) // settled() rejects
      underWay.push(work)
    }
    const settled = async (): Promise<void> => {
      await Promise.all(underWay.splice(0))
    }
    const play = async (event: Event): Promise<void> => {
      if (event.type === 'read') begin(read(event.client, event.at))
      else if (event.type === 'beat') {
        await Promise.all(here().map(async ({ replica }) => await replica.members.beat()))
      } else {
        await settled() // a process that stops has no reads under way
        const old = slots[event.at]
        if (event.type === 'start') slots[event.at] ??= await start()
        else if (old !== undefined) {
          slots[event.at] = event.type === 'replace' ? await start() : undefined
          if (event.type === 'kill') {
            isKilled = true
            kill(old)
          } else begin(halt(old))
        }
      }
    }
    try {
      for (const event of events) await play(event)
      await settled()
      for (const [index, running] of slots.entries()) slots[index] = running ?? await start()
      for (let n = 0; n < 40; n++) for (const client of passed.keys()) await read(client, [n])
    } finally {
      // A heartbeat under way would be a member of the next history.
      replicas.forEach(({ members }) => members.close())
      await Promise.allSettled(replicas.map(async ({ redis }) => await redis.commands.ping()))
      replicas.forEach(({ redis }) => redis.close())
      await commands.flushdb()
      fc.pre(replicas.every(({ redis }) => redis.outages === 0))
    }
    const isExact = passed.every((reads) => isKilled ? reads <= LIMIT : reads === LIMIT)
    if (!isExact) throw new Error(`${passed} of ${LIMIT}`)
  }
  const waits = fc.array(fc.nat(3), { maxLength: 40 })
  await fc.assert(
    fc.asyncProperty(fc.array(event, { minLength: 20, maxLength: 50 }), waits, check),
    {
      numRuns: histories,
      endOnFailure: true,
      ...seconds < Infinity && { interruptAfterTimeLimit: seconds * 1000 }
    }
  )
  t.ok(adopted > 0, `${adopted} adoptions`)
}
