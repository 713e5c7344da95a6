import { parseArgs } from 'node:util'
import type { Command, Input } from './commands.ts'

// From the words of a command line to one of the commands, or to a sentence about what is wrong with them.

/** The words can't be understood; `message` says why and where to look. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

export type Request =
  { readonly kind: 'version' } |
  /** About some commands, or about the one. */
  { readonly kind: 'help', readonly commands: readonly Command[] } |
  { readonly kind: 'run', readonly command: Command, readonly input: Input }

const OPTIONS = { help: { type: 'boolean', short: 'h' }, json: { type: 'boolean' } } as const

/**
 * Finds the command that is asked for, with its operands and options.
 *
 * @throws {UsageError} there is none of that name, or it takes something else
 */
export function parseCommandLine (args: readonly string[], commands: readonly Command[]): Request {
  if (args[0] === '--version' || args[0] === '-v') return { kind: 'version' }
  const asksForHelp = ['help', '--help', '-h'].includes(args[0] ?? '')
  const words = asksForHelp ? args.slice(1) : args
  if (words.length === 0) {
    if (asksForHelp) return { kind: 'help', commands }
    throw new UsageError('A command is missing (npx landfall --help lists them)')
  }

  const [command, ...others] = findCommands(words, commands) as [Command, ...Command[]]
  if (others.length > 0) {
    if (asksForHelp || ['--help', '-h'].includes(words[1] ?? '')) return { kind: 'help', commands: [command, ...others] }
    throw new UsageError(`"${words[0]}" needs another word: ${[command, ...others].map(({ name }) => name).join(', ')}\n(npx landfall ${words[0]} --help tells more)`)
  }
  const { values, positionals } = parseRest(command, words.slice(command.name.split(' ').length))
  if (asksForHelp || values.help === true) return { kind: 'help', commands: [command] }
  const [least, most] = command.operands
  if (positionals.length < least) throw wrongUse(command, `${command.usage.split(' ')[positionals.length] ?? 'something'} is missing`)
  if (positionals.length > most) throw wrongUse(command, `"${positionals[most]}" is one word too many`)
  return { kind: 'run', command, input: { operands: positionals, json: values.json === true } }
}

function findCommands (words: readonly string[], commands: readonly Command[]): readonly Command[] {
  const first = words[0] as string
  const firstTwo = words.slice(0, 2).join(' ')
  const found = commands.filter(({ name }) => name === first || name === firstTwo)
  if (found.length > 0) return found
  const group = commands.filter(({ name }) => name.startsWith(`${first} `))
  if (group.length > 0 && (words[1] === undefined || words[1].startsWith('-'))) return group

  const unknown = group.length > 0 ? firstTwo : first
  const nearest = nearestTo([first, firstTwo], commands.map(({ name }) => name))
  throw new UsageError(`There is no command "${unknown}"${nearest === undefined ? '' : `: did you mean "${nearest}"?`}\n(npx landfall --help lists them all)`)
}

function parseRest (command: Command, args: readonly string[]) {
  try {
    const parsed = parseArgs({ args: [...args], allowPositionals: true, strict: true, options: OPTIONS })
    if (parsed.values.json === true && command.json === undefined) throw new Error("Unknown option '--json'")
    return parsed
  } catch (error) {
    // Of several sentences the first one says what is wrong.
    throw wrongUse(command, (error as Error).message.split(/\. |\n/, 1)[0] as string)
  }
}

const wrongUse = ({ name, usage }: Command, reason: string): UsageError =>
  new UsageError(`${reason}\nUsage: npx landfall ${name}${usage === '' ? '' : ` ${usage}`}\n(npx landfall ${name} --help tells more)`)

/** The most alike, unless none is: at most one letter in three may differ. */
function nearestTo (given: readonly string[], names: readonly string[]): string | undefined {
  const [nearest] = names
    .map((name) => ({ name, distance: Math.min(...given.map((words) => distance(words, name))) }))
    .sort((a, b) => a.distance - b.distance)
  return nearest !== undefined && nearest.distance <= Math.max(2, nearest.name.length / 3) ? nearest.name : undefined
}

/** Levenshtein's: how many letters have to be added, left out or exchanged. */
function distance (a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min((row[j] as number) + 1, (next[j - 1] as number) + 1, (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1))
    }
    row = next
  }
  return row[b.length] as number
}
