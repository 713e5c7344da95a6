import { readFileSync } from 'node:fs'
import { describeSettings } from '../config.ts'
import type { Command } from './commands.ts'
import { table } from './output.ts'

// What `--help` and `--version` say.

export function version (): string {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }
  return version
}

/** Help for all. */
export const overview = (commands: readonly Command[]): string => `Landfall ${version()}: landing page documents and assets, served to many.

Usage: npx landfall COMMAND [--help]

${table(commands.map((command) => [`  ${callOf(command)}`, command.summary]))}
Settings come from the environment, or from a file .env in the folder in which a command is started; "npx landfall serve
--help" lists them. Results go to standard output, progress and errors to standard error.

Exit codes: 0 done, 1 failed or something is wrong, 2 the command is.
`

/** Help for one command. */
export const commandHelp = (command: Command): string => `Usage: npx landfall ${callOf(command)}${command.json ? ' [--json]' : ''}

${command.summary[0]?.toUpperCase()}${command.summary.slice(1)}. ${command.details}
${command.json ? '\n  --json   the result as JSON, for scripts\n' : ''}${command.listsSettings ? settings() : ''}`

const callOf = ({ name, usage }: Command): string => usage === '' ? name : `${name} ${usage}`

const settings = (): string => `
Settings, from the environment or a file .env in this folder:

${table(describeSettings().map(({ name, description, initial }) => [`  ${name}`, `${description}${initial === '' ? '' : ` (${initial})`}`]))}`
