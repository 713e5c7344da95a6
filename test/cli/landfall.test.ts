import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loadConfig } from '../../src/config.ts'
import { parseCommandLine } from '../../src/cli/command-line.ts'
import { COMMANDS } from '../../src/cli/commands.ts'
import { PROJECT, temporaryFolder } from '../helpers/service.ts'
import { landfall } from './helpers.ts'

// What is said to whoever types something, right or wrong, before anything is done.

t.test('help names every command, and each has its own', async (t) => {
  const { code, stdout, stderr } = await landfall({}, ['--help'])
  t.equal(code, 0)
  t.equal(stderr, '')
  for (const { name, usage } of COMMANDS) t.match(stdout, `\n  ${name}${usage === '' ? '' : ` ${usage}`}  `)
  t.match(stdout, /Exit codes: 0 done, 1 failed/)
  t.same(await landfall({}, ['help']), { code: 0, stdout, stderr: '' })

  const own = await landfall({}, ['users', 'create', '--help'])
  t.match(own, { code: 0, stdout: /^Usage: npx landfall users create EMAIL \[--json\]\n\nCreate an account\. /, stderr: '' })
  t.same(await landfall({}, ['help', 'users', 'create']), own)
  t.match(await landfall({}, ['users', '--help']), { code: 0, stdout: /users list .*\n.*users create EMAIL .*\n.*users set-password EMAIL .*\n.*users sign-out EMAIL / })
})

t.test('the help of serve lists every setting', async (t) => {
  const { stdout } = await landfall({}, ['serve', '--help'])
  for (const name of Object.keys(loadConfig({}))) t.match(stdout, new RegExp(`^  ${name}  `, 'm'), name)
  t.match(stdout, /PORT .*\(3000\)\n/)
})

t.test('the version is the one of the package', async (t) => {
  const { version } = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8'))
  t.same(await landfall({}, ['--version']), { code: 0, stdout: `${version}\n`, stderr: '' })
})

t.test('a command that is none names the nearest right one and what to do', async (t) => {
  const wrong: [args: string[], said: RegExp][] = [
    [[], /^A command is missing/],
    [['srve'], /^There is no command "srve": did you mean "serve"\?\n/],
    [['user', 'list'], /^There is no command "user": did you mean "users list"\?\n/],
    [['users', 'setpassword', 'x'], /^There is no command "users setpassword": did you mean "users set-password"\?\n/],
    [['something-else'], /^There is no command "something-else"\n/],
    [['--port=3'], /^There is no command "--port=3"\n/],
    [['users'], /^"users" needs another word: users list, users create, /],
    [['backup'], /^DIR is missing\nUsage: npx landfall backup DIR\n/],
    [['users', 'create'], /^EMAIL is missing\nUsage: npx landfall users create EMAIL\n/],
    [['users', 'create', 'a@example.com', 'secret'], /^"secret" is one word too many\n/],
    [['verify', 'a', 'b'], /^"b" is one word too many\n/],
    [['backup', '-dir'], /^Unknown option '-d'\n/],
    [['backup', '--json', 'x'], /^Unknown option '--json'\n/]
  ]
  for (const [args, said] of wrong) {
    t.throws(() => parseCommandLine(args, COMMANDS), { name: 'UsageError', message: said }, args.join(' '))
    t.throws(() => parseCommandLine(args, COMMANDS), { message: /npx landfall .*--help/ }, args.join(' '))
  }
  t.match(await landfall({}, ['srve']), { code: 2, stdout: '', stderr: /^There is no command "srve": did you mean "serve"\?\n\(npx landfall --help lists them all\)\n$/ })
})

t.test('settings that can not be used stop every command with a line for each, also those of a .env file', async (t) => {
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, '.env'), 'PORT=nonsense\nLOG_LEVEL=loud\n')
  for (const args of [['serve'], ['verify'], ['users', 'list']]) {
    const { code, stdout, stderr } = await landfall({ LOG_LEVEL: 'info' }, args, { cwd: folder })
    t.equal(code, 1)
    t.equal(stdout, '')
    t.match(stderr, /^(These settings can't be used|Landfall can't start with these settings):\nPORT must be a whole number from 0 to 65535\n$/)
  }
})
