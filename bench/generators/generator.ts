import { findProgram } from '../machine.ts'
import type { Request } from '../answers.ts'
import type { GeneratorName } from '../options.ts'
import { autocannonGenerator } from './autocannon.ts'
import { wrkGenerator } from './wrk.ts'
import type { Guardian } from '../../test/helpers/guardian.ts'

// What makes the load. Both keep a fixed number of connections busy, each with one request at a time.

/** The requests of a turn: all of them in turn, or as `order` says, by index, again and again. */
export interface Load {
  readonly requests: readonly Request[]
  readonly order?: Uint32Array
}

export interface Turn {
  readonly port: number
  readonly load: Load
  /** Which of the load's requests comes first, so that turns of a long list go on where the last one ended. */
  readonly start: number
  readonly seconds: number
  readonly connections: number
  readonly cores: readonly number[] | undefined
}

export interface Counts {
  readonly requests: number
  readonly seconds: number
  /** Received, heads included. */
  readonly bytes: number
  /** Answers with a status of 400 or more. */
  readonly refused: number
  readonly socketErrors: number
  readonly p50Ms: number
  readonly p99Ms: number
}

export interface Generator {
  readonly name: GeneratorName
  /** One line: which, and what to know about its numbers. */
  readonly description: string
  /** Prepares a load under a name; the same name again does nothing. */
  prepare (name: string, load: Load): void
  run (name: string, turn: Turn): Promise<Counts>
}

/** wrk where it is installed, else autocannon. */
export function findGenerator (wanted: GeneratorName | undefined, guardian: Guardian): Generator {
  const wrk = wanted === 'autocannon' ? undefined : findProgram('wrk')
  if (wrk !== undefined) return wrkGenerator(wrk, guardian)
  if (wanted === 'wrk') throw new Error('wrk is not installed')
  return autocannonGenerator(guardian)
}
