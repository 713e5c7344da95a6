import { InvalidArgumentError, Option, type Command } from 'commander'
import { PAGE_KEY } from '../infra/system/identifiers.ts'
import { run, runFrom, type LoadCommands } from './run.ts'

// The `pages` commands and their help. All but `take-down` call the API of a service.

const pageReads = async () => await import('./commands/pages.ts')
const pageChanges = async () => await import('./commands/page-changes.ts')
const pageImports = async () => await import('./commands/page-imports.ts')
const pageStates = async () => await import('./commands/page-states.ts')
const ownerAssets = async () => await import('./commands/owner-assets.ts')
const takeDowns = async () => await import('./commands/take-down.ts')

/** The heading of commands that don't use the API. */
export const OPERATOR_GROUP = 'Commands for operators, with the settings of the service:'

export const JSON_OPTION = ['--json', 'print the result as JSON, for scripts'] as const

const API_HELP = `
Calls the API of a service, with two variables of the environment:

  LANDFALL_URL  address of the service (http://localhost:3000)
  LANDFALL_KEY  API key of the owner with the scope pages:read, and pages:write to change pages, or drafts:write
                to change drafts alone (assets: assets:read and assets:write); or an access token, as a sign-in
                returns it, for 15 minutes`

const PAGE = ['<id>', 'the id of the page, or key:NAME', parsePage] as const
const DELETED_PAGE = ['<id>', 'the id of the page', parseId('"pages trash list"')] as const
const FILE = ['[file]', 'a JSON document; without it, or with "-", standard input'] as const
const CHANGE_HELP = `
If standard input is a terminal, it shows the changes and asks first. Prints the new ETag to standard error.`

export function addOwnerCommands (program: Command): void {
  const pages = program.command('pages')
    .description('Creates, imports, writes and publishes pages through the API; for operators: take-down.')
    .addHelpText('after', '\nA page is named by its id or, outside of the trash, by key:summer-sale.')
  addReadCommands(pages)
  addCreateCommands(pages)
  addChangeCommands(pages)
  addScheduleCommand(pages)
  addStateCommands(pages)
  addTrashCommands(pages)
  pages.command('take-down')
    .argument('<public-id>')
    .helpGroup(OPERATOR_GROUP)
    .description('Deletes a page of any account. Its readers get a 404 at once, on all replicas.')
    .action(runFrom(takeDowns, 'takeDownPage'))
}

function addReadCommands (pages: Command): void {
  apiCommand(pages, 'list')
    .description('Lists your pages, with the versions, sizes and labels of their documents.')
    .option('--search <text>', 'only pages with this text in their label, key or public id')
    .addOption(new Option('--sort <order>', 'newest first (default), latest change first, or by label')
      .choices(['created', 'updated', 'label']))
    .option(...JSON_OPTION)
    .action(runWithClient(pageReads, 'list'))
  apiCommand(pages, 'get')
    .argument(...PAGE)
    .description('Prints the document of a page byte for byte. Its ETag goes to standard error. To save ' +
      'it in a file, use npm run -s, because npm prints a heading.')
    .option('--revision <version>', 'print an earlier version', parseVersion)
    .action(runForPage(pageReads, 'get'))
  apiCommand(pages, 'history')
    .argument(...PAGE)
    .description('Lists the versions of a page, newest first. Says when they were written, and by whom.')
    .option(...JSON_OPTION)
    .action(runForPage(pageReads, 'showHistory'))
}

function addCreateCommands (pages: Command): void {
  apiCommand(pages, 'create')
    .argument(...FILE)
    .description('Creates a page with the document in a file. Prints its id.')
    .option('--key <key>', 'the name of the page in your own system')
    .option('--unpublished', 'readers do not get it until it is published')
    .option(...JSON_OPTION)
    .action(runWithClient(pageImports, 'create'))
  apiCommand(pages, 'import')
    .argument('<dir>', 'a folder with a file for each page; its subfolders are not read')
    .description('Creates or changes a page for each file of a folder. NAME.json becomes the document of ' +
      'the page with the key NAME. Prints for each file whether its page was created, changed or the same. ' +
      'Run it again after an interruption, or after mending the files that failed; exits with 1 if any has ' +
      'failed.')
    .option(...JSON_OPTION)
    .action(runWithClient(pageImports, 'importFolder'))
}

function addStateCommands (pages: Command): void {
  const WAIT = [
    '--wait <seconds>',
    'wait, up to 60 s, until readers get it everywhere; exit with 1 if that is not known by then',
    parseNumber(60, 'Use 1 to 60 seconds.')
  ] as const
  const IF_MATCH = ['--if-match <etag>', 'only if the ETag is still this one', parseEtag] as const
  apiCommand(pages, 'draft')
    .argument(...PAGE)
    .argument('[file]', 'a JSON document, or "-" for standard input; without it, the draft is printed')
    .description('Prints, writes or discards the draft of a page. Readers do not see it until "pages ' +
      'publish".')
    .option('--discard', 'remove the draft')
    .option(...IF_MATCH)
    .action(runForPage(pageStates, 'draft'))
  apiCommand(pages, 'preview')
    .argument(...PAGE)
    .description('Makes, lists or revokes preview links of a page. Prints the token of a new one. A ' +
      'website sends the token in the header Authorization to read the draft, or the document of a page ' +
      'without one.')
    .option('--name <name>', 'for whom it is, for your list')
    .option(
      '--expires-in <seconds>',
      'between 300 and 2592000; default: a week',
      parseNumber(Number.MAX_SAFE_INTEGER, 'Use a number of seconds.')
    )
    .addOption(new Option('--list', 'list the links that have not expired').conflicts('revoke'))
    .option('--revoke <link-id>', 'revoke a link', parseId('"pages preview ID --list"'))
    .option(...JSON_OPTION)
    .action(runForPage(pageStates, 'preview'))
  apiCommand(pages, 'publish')
    .argument(...PAGE)
    .description('Publishes the draft of a page, or the page itself. Readers get it at once. Without a ' +
      'draft, an unpublished page is published as it is.')
    .option('--if-match <etag>', 'only if the draft still has this ETag', parseEtag)
    .option(
      '--base-version <version>',
      'the current version: publish although the document has changed ' +
        'since the draft was begun',
      parseVersion
    )
    .option(...WAIT)
    .action(runForPage(pageStates, 'publish'))
  apiCommand(pages, 'unpublish')
    .argument(...PAGE)
    .description('Takes the document of a page away from readers. They get a 404.')
    .option(...IF_MATCH)
    .option(...WAIT)
    .action(runForPage(pageStates, 'unpublish'))
}

function addTrashCommands (pages: Command): void {
  apiCommand(pages, 'delete')
    .argument(...PAGE)
    .description('Deletes a page: its readers get a 404, and "pages trash" has it for a while. If standard ' +
      'input is a terminal, it asks first.')
    .option('--if-match <etag>', 'only if the ETag is still this one', parseEtag)
    .option('--yes', 'do not ask')
    .action(runForPage(pageStates, 'remove'))
  const trash = pages.command('trash').description('Lists, restores or removes deleted pages.')
  apiCommand(trash, 'list')
    .description('Lists the deleted pages, the last deleted first.')
    .option(...JSON_OPTION)
    .action(runWithClient(pageStates, 'listTrash'))
  apiCommand(trash, 'restore')
    .argument(...DELETED_PAGE)
    .description('Takes a page out of the trash.')
    .action(runWithClient(pageStates, 'undelete'))
  apiCommand(trash, 'remove')
    .argument(...DELETED_PAGE)
    .description('Removes a page in the trash for good, with all its versions.')
    .action(runWithClient(pageStates, 'purge'))
}

/** Adds the commands for one's own assets. */
export function addOwnerAssetCommands (assets: Command): void {
  apiCommand(assets, 'list')
    .description('Lists your assets, newest first.')
    .option('--search <text>', 'only assets with this text in their name')
    .option(...JSON_OPTION)
    .action(runWithClient(ownerAssets, 'list'))
  apiCommand(assets, 'upload')
    .argument('<files...>')
    .description('Uploads files, and prints the URL of each. Stops at the first that fails.')
    .option(...JSON_OPTION)
    .action(runWithClient(ownerAssets, 'upload'))
}

function addChangeCommands (pages: Command): void {
  const addCommand = (name: string) => {
    const command = pages.command(name).argument(...PAGE)
    return command.addHelpText('after', `${CHANGE_HELP}\n${API_HELP}`)
      .option('--if-match <etag>', 'write only if the document still has this ETag', parseEtag)
      .option('--yes', 'do not ask')
  }
  addCommand('put')
    .argument(...FILE)
    .description('Replaces the document of a page by the bytes of a file.')
    .action(runForPage(pageChanges, 'put'))
  addCommand('edit')
    .description('Edits the document of a page in $VISUAL, $EDITOR or vi. Stores what you save. If it ' +
      'cannot be stored, your text stays in a file.')
    .action(runForPage(pageChanges, 'edit'))
  addCommand('restore')
    .argument('<version>', 'a version from "pages history"', parseVersion)
    .description('Restores an earlier version of a page. It becomes a new version.')
    .action(runForPage(pageChanges, 'restore'))
}

function addScheduleCommand (pages: Command): void {
  apiCommand(pages, 'schedule')
    .argument(...PAGE)
    .description('Shows or sets when the draft of a page, or the unpublished page, is published, and when ' +
      'the page is unpublished. A time that is not given stays as it is. Until it is published, the draft ' +
      'cannot be changed.')
    .option('--publish-at <time>', 'with an offset from UTC, such as 2027-01-31T08:00:00+01:00, or "never"')
    .option('--unpublish-at <time>', 'the same, later than the other')
    .addOption(new Option('--remove', 'remove both times').conflicts(['publishAt', 'unpublishAt']))
    .option('--if-match <etag>', 'only if the draft still has this ETag', parseEtag)
    .option(...JSON_OPTION)
    .action(runForPage(pageStates, 'schedule'))
}

/** Adds a command that calls the API. */
const apiCommand = (parent: Command, name: string): Command =>
  parent.command(name).addHelpText('after', API_HELP)

/** Runs a command with a client of the API, and explains errors of the API. */
const runWithClient =
  <Name extends string>(load: LoadCommands<Name>, name: Name, findsPage = false) =>
  async (...args: unknown[]): Promise<void> =>
    await run(async () => {
      const { createOwnerClient, explain, findPageId } = await import('./owner-client.ts')
      const command = (await load())[name]
      const client = createOwnerClient()
      try {
        if (findsPage) args[0] = await findPageId(client, args[0] as string)
        return await command(client, ...args)
      } catch (error) {
        throw error instanceof InvalidArgumentError ? error : new Error(explain(error), { cause: error })
      }
    })

/** The same for commands whose first argument names a page. */
const runForPage = <Name extends string>(load: LoadCommands<Name>, name: Name) =>
  runWithClient(load, name, true)

function parsePage (given: string): string {
  return given.startsWith('key:') && PAGE_KEY.test(given.slice('key:'.length)) ? given
    : parseId('"pages list", or key:NAME')(given)
}

/** Returns a function that checks an id, which becomes a part of a URL. `source` lists the ids. */
function parseId (source: string): (given: string) => string {
  return (given) => {
    if (!/^[\w-]+$/.test(given)) throw new InvalidArgumentError(`Use an id from ${source}.`)
    return given
  }
}

/** Returns a function that checks a whole number from 1 to `max`. */
function parseNumber (max: number, rule: string): (given: string) => number {
  return (given) => {
    if (!/^[1-9]\d*$/.test(given) || Number(given) > max) throw new InvalidArgumentError(rule)
    return Number(given)
  }
}

const parseVersion = parseNumber(Number.MAX_SAFE_INTEGER, 'Use a version from "pages history".')

/** Adds the quotes if a shell has removed them. */
function parseEtag (given: string): string {
  const etag = /["*]/.test(given) ? given : `"${given}"`
  if (!/^(\*|"[\x21\x23-\x7e]+")$/.test(etag)) throw new InvalidArgumentError('Use one strong ETag.')
  return etag
}
