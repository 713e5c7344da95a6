import { parseArgs } from 'node:util'
import { resolve } from 'node:path'
import type { GeneratorName } from './generators/types.ts'

export const USAGE = `npm run bench -- [options]
  --rounds=N         measured rounds, after one round of warm-up (8)
  --seconds=N        length of each contender's turn in a round (2)
  --connections=N    concurrent connections (64)
  --only=TEXT,TEXT   contenders whose name contains one of these, and those that they are compared with
  --list             prints the names of the contenders
  --json=FILE        writes all measured numbers to a file
  --svg=FILE         draws the ratios as a picture
  --add=FILE.js      adds a contender: a server like those in bench/baselines
  --profile=FOLDER   writes a CPU profile of each server of ours and prints where the time went (best with --only)
  --soak=SECONDS     runs one contender at full speed instead and fails if its memory grows
  --generator=NAME   wrk or autocannon (wrk if it is installed)`

export interface Options {
  readonly rounds: number
  readonly seconds: number
  readonly connections: number
  /** Parts of names; empty for all contenders. */
  readonly only: readonly string[]
  readonly list: boolean
  readonly json: string | undefined
  readonly svg: string | undefined
  readonly add: string | undefined
  readonly profile: string | undefined
  readonly soakSeconds: number | undefined
  readonly generator: GeneratorName | undefined
}

/** Wrong usage of the command line. `message` is one line. */
export class UsageError extends Error {}

/**
 * Reads the command line.
 *
 * @returns undefined when the user asks for help
 * @throws {UsageError}
 */
export function readOptions (args: readonly string[]): Options | undefined {
  const values = parse(args)
  if (values.help === true) return undefined
  const number = (name: 'rounds' | 'seconds' | 'connections' | 'soak', initial: number): number => {
    const value = values[name]
    if (value !== undefined && !/^[1-9]\d{0,5}$/.test(value)) {
      throw new UsageError(`--${name} takes a whole number from 1`)
    }
    return value === undefined ? initial : Number(value)
  }
  // npm changes to the project's folder; paths are relative to the folder where the command was typed.
  const file = (name: 'json' | 'svg' | 'add' | 'profile'): string | undefined => {
    const value = values[name]
    return value === undefined ? undefined : resolve(process.env.INIT_CWD ?? process.cwd(), value)
  }
  const { generator } = values
  if (generator !== undefined && generator !== 'wrk' && generator !== 'autocannon') {
    throw new UsageError('--generator takes wrk or autocannon')
  }
  return {
    rounds: number('rounds', 8),
    seconds: number('seconds', 2),
    connections: number('connections', 64),
    only: (values.only ?? []).flatMap((text) => text.split(',')).map((text) => text.trim()).filter((text) =>
      text !== ''
    ),
    list: values.list ?? false,
    json: file('json'),
    svg: file('svg'),
    add: file('add'),
    profile: file('profile'),
    soakSeconds: values.soak === undefined ? undefined : number('soak', 600),
    generator
  }
}

function parse (args: readonly string[]) {
  const text = { type: 'string' } as const
  const flag = { type: 'boolean' } as const
  try {
    return parseArgs({
      args: [...args],
      options: {
        rounds: text,
        seconds: text,
        connections: text,
        json: text,
        svg: text,
        add: text,
        profile: text,
        soak: text,
        generator: text,
        only: { type: 'string', multiple: true },
        list: flag,
        help: { type: 'boolean', short: 'h' }
      }
    }).values
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}
