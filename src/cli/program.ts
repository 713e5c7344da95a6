import { Command, Option } from 'commander'
import { ConfigError, describeSettings, FILE_SETTINGS } from '../config.ts'
import { COMMIT, VERSION } from '../infra/system/version.ts'
import { formatTable } from './output.ts'
import { addOwnerAssetCommands, addOwnerCommands, JSON_OPTION, OPERATOR_GROUP } from './owner-commands.ts'
import { printFailure, run, runFrom } from './run.ts'

// The commands and their help. The code of a command is imported when it runs, so that `--help` loads no
// database client and `serve` loads nothing that only the other commands need.

const config = async () => await import('./commands/config.ts')
const backups = async () => await import('./commands/backup.ts')
const users = async () => await import('./commands/users.ts')
const takeDowns = async () => await import('./commands/take-down.ts')
const limits = async () => await import('./commands/limits.ts')

const PASSWORD_HELP = `
Asks for the password twice on a terminal, and otherwise reads it from standard input:

  npm run landfall -- users create you@example.com < password-file`

/**
 * The command line as a commander program. Its `parseAsync` sets the exit code of the process.
 *
 * @throws {CommanderError} by `parseAsync`, if help was requested or the command line is wrong
 */
export function createProgram (): Command {
  const program = new Command('npm run landfall --')
    .description('Landfall: a high-throughput service for landing page documents and assets.')
    .version(COMMIT === undefined ? VERSION : `${VERSION} (${COMMIT})`, '-v, --version', 'print the version')
    .showHelpAfterError('(add --help to see how it is used)')
    .configureHelp({ subcommandDescription: firstSentence })
    .exitOverride()
    .addHelpText(
      'after',
      `
Settings come from the environment or from a file .env in the working folder; npm run landfall -- serve --help lists them.
The commands for your own pages need only LANDFALL_URL and LANDFALL_KEY; npm run landfall -- pages list --help explains them.
Results go to standard output, progress and errors to standard error.

Exit codes: 0 success, 1 failure, 2 wrong usage.`
    )
  addServiceCommands(program)
  addConfigCommand(program)
  addBackupCommands(program)
  addUserCommands(program)
  addOwnerCommands(program)
  addAssetCommands(program)
  addLimitCommands(program)
  return program
}

const firstSentence = (command: Command): string => command.description().split(/\.(?: |$)/, 1)[0] as string

function addServiceCommands (program: Command): void {
  program.command('serve')
    .description('Runs the service until Ctrl-C or SIGTERM. It finishes the requests in flight first; a ' +
      'second signal ends it without waiting for them.')
    .addHelpText('after', settingsHelp)
    .action(async () => {
      try {
        await (await import('./commands/serve.ts')).serveUntilSignal()
      } catch (error) {
        if (process.stderr.isTTY) {
          printFailure(error, "Landfall can't start with these settings:", 'Landfall could not start: ')
        } else await logFailedStart(error)
        process.exit(1) // connections that were opened before the failure would keep the process alive
      }
    })
  program.command('migrate')
    .description('Applies the outstanding migrations to the database. When several processes start at ' +
      'once, one of them applies the migrations and the others wait. The service applies them at start, ' +
      'unless MIGRATE_ON_START=false.')
    .addOption(new Option(
      '--status',
      'only list the migrations and their states; exit with 1 if any is not applied'
    )
      .conflicts('dryRun'))
    .option('--dry-run', 'only print the SQL that would run')
    .action(async ({ status, dryRun }: { status?: true, dryRun?: true }) =>
      await run(async () => {
        const commands = await import('./commands/migrate.ts')
        if (status === true) return await commands.showMigrations()
        return dryRun === true ? await commands.previewMigrations() : await commands.migrate()
      })
    )
}

function addConfigCommand (program: Command): void {
  program.command('config')
    .description('Shows or checks the settings in force. Says where each comes from: the environment, ' +
      '.env or the default. Secrets are hidden. Names that are probably misspelt settings are reported on ' +
      'standard error.')
    .option('--check', 'only check the settings; exit with 1 if one is invalid or misspelt')
    .option('--secrets-key', 'print the key in force, to be set as SECRETS_KEY before JWT_SECRET is replaced')
    .action(runFrom(config, 'showConfig'))
}

function addBackupCommands (program: Command): void {
  program.command('backup')
    .argument('<dir>', 'a folder that does not exist yet')
    .description('Copies the database and the uploads to a new folder. The service may be running. With ' +
      'DATABASE_URL, pg_dump must be on the PATH. The backup contains secrets of your users, such as ' +
      'password hashes. It does not contain a JWT_SECRET that you set yourself, so keep that elsewhere.')
    .action(runFrom(backups, 'backup', 'The backup failed: '))
  program.command('restore')
    .argument('<dir>', 'a folder that the backup command has created')
    .description('Restores a backup into an empty database and empty folders, those of the settings. No ' +
      'service may be running on them. With DATABASE_URL, pg_restore must be on the PATH.')
    .action(runFrom(backups, 'restore', 'The restore failed: '))
  program.command('verify')
    .argument('[dir]', 'a folder that the backup command has created; without it, the service is checked')
    .description('Checks that every asset has a file and every file an asset. Compares sizes and ' +
      'checksums, in a backup or in the service, which may be running. Lists the problems, and exits with ' +
      '1 if there are any.')
    .action(runFrom(backups, 'verify', 'The verification failed: '))
}

function addUserCommands (program: Command): void {
  const command = program.command('users')
    .description('Lists, creates and deletes accounts, changes passwords, ends sessions.')
  command.command('list')
    .description('Lists all accounts, oldest first. Shows the number of their pages, assets and sessions.')
    .option(...JSON_OPTION)
    .action(runFrom(users, 'list'))
  command.command('create')
    .argument('<email>')
    .description('Creates an account.')
    .addHelpText('after', PASSWORD_HELP)
    .option(...JSON_OPTION)
    .action(runFrom(users, 'create'))
  command.command('set-password')
    .argument('<email>')
    .description('Changes the password of an account and ends all its sessions. Forgets its failed ' +
      'sign-ins (with REDIS_URL).')
    .addHelpText('after', PASSWORD_HELP.replace('create', 'set-password'))
    .option(...JSON_OPTION)
    .action(runFrom(users, 'changePassword'))
  command.command('sign-out')
    .argument('<email>')
    .description('Ends all sessions of an account. Its access tokens and refresh tokens are refused at ' +
      'once, on all replicas.')
    .option(...JSON_OPTION)
    .action(runFrom(users, 'signOut'))
  command.command('delete')
    .argument('<email>')
    .description('Deletes an account, its pages, its assets and their files. Readers get a 404 at once, ' +
      'on all replicas. Only a backup can bring it back.')
    .option(...JSON_OPTION)
    .action(runFrom(users, 'remove'))
}

function addAssetCommands (program: Command): void {
  const assets = program.command('assets')
    .description('Lists and uploads assets through the API; for operators: take-down.')
  addOwnerAssetCommands(assets)
  assets.command('take-down')
    .argument('<id>', 'the id of the asset, or the last part of its URL')
    .helpGroup(OPERATOR_GROUP)
    .description('Deletes an asset of any account and its file. Its URL is a 404 from then on. A CDN and ' +
      'browsers may keep copies.')
    .action(runFrom(takeDowns, 'takeDownAsset'))
}

function addLimitCommands (program: Command): void {
  const command = program.command('limits')
    .description('Shows or clears what Redis counts for a client address (needs REDIS_URL).')
  command.command('show')
    .argument('<address>')
    .description('Shows the public reads, sign-ins, sign-ups and refreshes that Redis counts for a client ' +
      'address. IPv6 addresses are counted by their /64. What a process counts in its own memory, because ' +
      'it cannot reach Redis, is not shown.')
    .option(...JSON_OPTION)
    .action(runFrom(limits, 'show'))
  command.command('clear')
    .argument('<address>')
    .description('Deletes what Redis counts for a client address. A process that has already refused ' +
      'reads, sign-ups or refreshes of this address refuses them until their minute ends.')
    .action(runFrom(limits, 'clear'))
}

/** Logs a failed start, because what reads the log of a service doesn't know other formats. */
async function logFailedStart (error: unknown): Promise<void> {
  const { createLogger } = await import('../infra/telemetry/logger.ts')
  const message = error instanceof Error ? error.message : String(error)
  createLogger({ LOG_LEVEL: 'fatal', LOG_FORMAT: 'json' }).fatal(error instanceof ConfigError
    ? `Landfall can't start with these settings: ${message.replaceAll('\n', '; ')}`
    : `Landfall could not start: ${message}`)
}

const settingsHelp = (): string => `
Settings, from the environment or a file .env in the working folder:

${
  formatTable(describeSettings().map(({ name, description, initial }) => [
    `  ${name}`,
    `${description}${initial === '' ? '' : ` (${initial})`}`
  ]))
}
Secrets can be read from files that these name: ${FILE_SETTINGS.join(', ')}.`
