import { parseArgs } from 'node:util'
import { resolve } from 'node:path'

export const USAGE = `npm run bench -- [options]
  --rounds=N         rounds that count; one more before them warms up (9)
  --seconds=N        length of each contender's turn in a round (2)
  --connections=N    connections that are kept busy (64)
  --only=TEXT,TEXT   contenders whose name contains one of these, with what they are compared with; --list names all
  --list             names the contenders and ends
  --json=FILE        keeps every number
  --svg=FILE         draws the ratios
  --add=FILE.js      one more contender: a server of yours, started like those in bench/baselines
  --profile=FOLDER   a CPU profile of each of our servers, and where the time went (best with --only)
  --soak=SECONDS     instead: one contender at full speed for so long, and whether its memory grows
  --generator=NAME   wrk or autocannon (wrk where it is installed)`

export type GeneratorName = 'wrk' | 'autocannon'

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

/** The command was called in a way that can't work; `message` is one line. */
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
    if (value !== undefined && !/^[1-9]\d{0,5}$/.test(value)) throw new UsageError(`--${name} takes a whole number from 1`)
    return value === undefined ? initial : Number(value)
  }
  // npm starts it in the project's folder; the user meant the one where the command was typed.
  const file = (name: 'json' | 'svg' | 'add' | 'profile'): string | undefined => {
    const value = values[name]
    return value === undefined ? undefined : resolve(process.env.INIT_CWD ?? process.cwd(), value)
  }
  const { generator } = values
  if (generator !== undefined && generator !== 'wrk' && generator !== 'autocannon') throw new UsageError('--generator takes wrk or autocannon')
  return {
    rounds: number('rounds', 9),
    seconds: number('seconds', 2),
    connections: number('connections', 64),
    only: (values.only ?? []).flatMap((text) => text.split(',')).map((text) => text.trim()).filter((text) => text !== ''),
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
