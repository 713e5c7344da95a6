import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import type { Guardian } from '../test/shared/guardian.ts'
import type { Order, Outcome, Setup } from './replica-process.ts'
import type { Plan } from './replica-schedule.ts'

// All replicas of the simulation, in a few processes.

/** More processes than cores would only wait for each other. */
const PROCESSES = 2
/** A new replica has its share after 63 s and a few heartbeats. */
const SECONDS_WITHOUT_SHARE = 67
/** Time for all processes to draw the reads, in milliseconds. */
const PREPARATION_MS = 300

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, number) => sum + number, 0)

export class ReplicaGroup {
  readonly #children: ChildProcess[]

  private constructor (children: ChildProcess[]) {
    this.#children = children
  }

  /** Starts replicas with the numbers from 0 to `count` - 1, and waits until each has its share. */
  static async start (
    setup: Pick<Setup, 'redisUrl' | 'windowMs'>,
    count: number,
    guardian: Guardian
  ): Promise<ReplicaGroup> {
    const processes = Math.min(PROCESSES, count)
    const group = new ReplicaGroup(Array.from({ length: processes }, (_, index) => {
      const own: Setup = { ...setup, index, processes }
      const child = fork(join(import.meta.dirname, 'replica-process.ts'), [JSON.stringify(own)], {
        execArgv: ['--import=tsx'],
        detached: true // the guardian ends it
      })
      const { pid } = child
      if (pid !== undefined) {
        guardian.add(pid, 'KILL')
        child.once('exit', () => guardian.forget(pid))
      }
      return child
    }))
    await group.#askAll({ type: 'start', replicas: Array.from({ length: count }, (_, id) => id) })
    await group.passMinute()
    return group
  }

  /** Sets the process clocks forward by a minute with all its heartbeats, in step in all processes. */
  async passMinute (): Promise<void> {
    const outages = async (ms: number): Promise<number> => sumOf(await this.#askAll({ type: 'pass', ms }))
    for (;;) {
      const before = await outages(0)
      for (let second = 0; second < SECONDS_WITHOUT_SHARE; second++) await outages(1000)
      if (await outages(0) === before) return // otherwise a heartbeat was lost, and perhaps a share
    }
  }

  /** Returns the shares of the living replicas. */
  async shares (max: number): Promise<number[]> {
    return (await this.#askAll<number[]>({ type: 'share', max })).flat()
  }

  /** Sends the reads of a plan to the replicas; returns what all of them did. */
  async run (plan: Plan): Promise<Outcome> {
    const at = performance.timeOrigin + performance.now() + PREPARATION_MS
    const outcomes = await this.#askAll<Outcome>({ type: 'run', plan, at })
    const add = (lists: number[][]): number[] =>
      Array.from(
        { length: plan.clients },
        (_, client) => sumOf(lists.map((list) => list[client] as number))
      )
    return {
      admitted: add(outcomes.map(({ admitted }) => admitted)),
      refused: add(outcomes.map(({ refused }) => refused)),
      lateMs: Math.max(...outcomes.map(({ lateMs }) => lateMs)),
      outages: sumOf(outcomes.map(({ outages }) => outages))
    }
  }

  async stop (): Promise<void> {
    await Promise.all(this.#children.map(async (child) => {
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = once(child, 'exit')
      child.send({ type: 'stop' } satisfies Order)
      await ended
    }))
  }

  async #askAll<T> (order: Order): Promise<T[]> {
    return await Promise.all(this.#children.map(async (child) => {
      const end = new AbortController()
      const ended = once(child, 'exit', { signal: end.signal }).then(() => {
        throw new Error('a process of the simulation has ended')
      })
      ended.catch(() => {})
      const answered = once(child, 'message', { signal: end.signal }) as Promise<[{ response: T }]>
      answered.catch(() => {})
      child.send(order)
      const [{ response }] = await Promise.race([answered, ended])
      end.abort()
      return response
    }))
  }
}
