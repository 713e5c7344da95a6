import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { FILE_SETTINGS, loadConfig } from '../../../src/config.ts'
import { PROJECT, temporaryFolder } from '../../helpers/service.ts'
import { LANDFALL, landfall } from '../../helpers/cli.ts'

// Help texts, and errors for a wrong command line or wrong settings.

t.test('--help lists every command, and each command has its own help', async (t) => {
  const { code, stdout, stderr } = await landfall({}, ['--help'])
  t.equal(code, 0)
  t.equal(stderr, '')
  const usages = 'serve|migrate [options]|config [options]|backup <dir>|restore <dir>|verify [dir]'
  for (const usage of [...usages.split('|'), 'users', 'pages', 'assets', 'limits']) {
    t.match(stdout, `\n  ${usage}  `)
  }
  t.match(stdout, /Exit codes: 0 success, 1 failure, 2 wrong usage/)
  t.same(await landfall({}, ['help']), { code: 0, stdout, stderr: '' })

  const group = await landfall({}, ['users', '--help'])
  for (const usage of ['list', 'create', 'set-password', 'sign-out', 'delete']) {
    t.match(group, { code: 0, stdout: `\n  ${usage} [options] ` })
  }
  t.match(await landfall({}, ['users', 'create', '--help']), {
    code: 0,
    stdout:
      /^Usage: npm run landfall -- users create \[options\][^]*\n {2}--json {6}print the result as JSON/,
    stderr: ''
  })
  t.match(
    (await landfall({}, ['pages', 'list', '--help'])).stdout,
    /\n {2}LANDFALL_URL [^]*\n {2}LANDFALL_KEY /
  )
})

t.test('serve --help lists every setting with its default', async (t) => {
  const { stdout } = await landfall({}, ['serve', '--help'])
  for (const name of Object.keys(loadConfig({}))) t.match(stdout, new RegExp(`^  ${name}  `, 'm'), name)
  t.match(stdout, /PORT .*\(3000\)\n/)
  for (const name of FILE_SETTINGS) t.match(stdout, name)
})

t.test('npm run landfall passes on arguments and the exit code', async (t) => {
  const run = async (...args: string[]) =>
    await landfall({}, args, { command: ['npm', 'run', '--silent', 'landfall', '--'] })
  t.match(await run('--help'), { code: 0, stdout: /^Usage: npm run landfall -- / })
  t.match(await run('nonsense'), { code: 2, stderr: /unknown command/ })
})

t.test('help exits with 0 when the reader of the pipe has exited', async (t) => {
  const command = ['bash', '-c', 'set -o pipefail; "$@" | true', 'bash', process.execPath, LANDFALL] as const
  t.same(await landfall({}, ['serve', '--help'], { command }), { code: 0, stdout: '', stderr: '' })
})

t.test('a command whose output cannot be written says so and exits with 1', async (t) => {
  const command = ['bash', '-c', '"$@" > /dev/full', 'bash', process.execPath, LANDFALL] as const
  t.same(await landfall({}, ['config'], { command }), {
    code: 1,
    stdout: '',
    stderr: "The output can't be written: ENOSPC\n"
  })
})

t.test('--version prints the version of the package and the commit that was built', async (t) => {
  const { version } = JSON.parse(readFileSync(join(PROJECT, 'package.json'), 'utf8'))
  const commit = readFileSync(join(PROJECT, 'dist/commit'), 'utf8').trim()
  const release = commit === '' ? version : `${version} (${commit})`
  t.same(await landfall({}, ['--version']), { code: 0, stdout: `${release}\n`, stderr: '' })
})

t.test('a wrong command line exits with 2 and prints the reason and a hint', async (t) => {
  const wrong: [args: string[], stderr: RegExp][] = [
    [
      ['users', 'setpassword', 'x'],
      /^error: unknown command 'setpassword'\n\(Did you mean set-password\?\)\n/
    ],
    [['--port=3'], /^error: unknown option '--port=3'\n/],
    [
      ['users', 'create', 'a@example.com', 'secret'],
      /^error: too many arguments for 'create'\. Expected 1 argument but got 2\.\n/
    ]
  ]
  for (const [args, reason] of wrong) {
    const { code, stdout, stderr } = await landfall({}, args)
    t.equal(code, 2, args.join(' '))
    t.equal(stdout, '')
    t.match(stderr, reason)
    t.match(stderr, /\n\(add --help to see how it is used\)\n$/)
  }
})

t.test('without a command, the help goes to standard error and the exit code is 2', async (t) => {
  const { stdout: help } = await landfall({}, ['--help'])
  t.same(await landfall({}, []), { code: 2, stdout: '', stderr: help })
  t.match(await landfall({}, ['users']), {
    code: 2,
    stdout: '',
    stderr: /^Usage: npm run landfall -- users /
  })
})

t.test('wrong settings, from the environment or a .env file, stop every command with one line each', async (t) => {
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, '.env'), 'PORT=nonsense\nLOG_LEVEL=loud\n')
  for (const args of [['serve'], ['verify'], ['users', 'list']]) {
    const { code, stdout, stderr } = await landfall({ LOG_LEVEL: 'info' }, args, { cwd: folder })
    t.equal(code, 1)
    if (args[0] === 'serve') {
      t.equal(stderr, '')
      t.match(JSON.parse(stdout), {
        level: 60,
        msg: "Landfall can't start with these settings: PORT must be a whole number from 0 to 65535"
      })
      continue
    }
    t.equal(stdout, '')
    t.equal(stderr, "These settings can't be used:\nPORT must be a whole number from 0 to 65535\n")
  }
})

t.test('config shows the settings in force and where they come from, without secrets', async (t) => {
  const folder = temporaryFolder(t)
  writeFileSync(join(folder, 'key'), 'k'.repeat(32))
  writeFileSync(
    join(folder, '.env'),
    'PORT=4000\nLOG_LEVEL=warn\nRATE_LIMIT_PUBLC=5\nFAVOURITE_COLOUR=red\nPOSTGRES_PASSWORD=hunter2\n'
  )
  const env = {
    LOG_LEVEL: 'error',
    DATABASE_URL: 'postgresql://me:hunter2@localhost/x',
    JWT_SECRET_FILE: join(folder, 'key'),
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://me:hunter2@localhost:4318',
    ALLOWED_HOSTS: 'www.example.com, 10.0.0.0/8',
    REDIS_ULR: 'redis://:hunter2@localhost'
  }
  const { code, stdout, stderr } = await landfall(env, ['config'], { cwd: folder })
  t.equal(code, 0)
  for (
    const row of [
      /SETTING +VALUE +FROM/,
      /HOST +127\.0\.0\.1 +default/,
      /PORT +4000 +\.env/,
      /LOG_LEVEL +error +environment/,
      /DATABASE_URL +\(hidden\) +environment/,
      /JWT_SECRET +\(hidden\) +JWT_SECRET_FILE \(environment\)/,
      /REDIS_URL +\(none\) +default/,
      /ALLOWED_HOSTS +www\.example\.com, 10\.0\.0\.0\/8 +environment/,
      /OTEL_EXPORTER_OTLP_ENDPOINT +http:\/\/\(hidden\)@localhost:4318 +environment/
    ]
  ) t.match(stdout, new RegExp(`^${row.source}$`, 'm'))
  t.notMatch(stdout + stderr, /hunter2|kkkk/)
  t.same(stderr.trim().split('\n').sort(), [
    'FAVOURITE_COLOUR in .env is not a setting',
    'RATE_LIMIT_PUBLC in .env is not a setting: did you mean RATE_LIMIT_PUBLIC?',
    'REDIS_ULR in the environment is not a setting: did you mean REDIS_URL?'
  ])
  const serve = await landfall(
    { ...env, LOG_LEVEL: 'warn', HOST: '192.0.2.1', DATABASE_URL: '' },
    ['serve'],
    { cwd: folder }
  )
  t.match(serve.stdout, '"msg":"RATE_LIMIT_PUBLC in .env is not a setting: did you mean RATE_LIMIT_PUBLIC?"')
})

t.test('config --secrets-key prints the key that has to outlive JWT_SECRET', async (t) => {
  const cwd = temporaryFolder(t)
  const print = async (env: Record<string, string>) =>
    await landfall(env, ['config', '--secrets-key'], { cwd })
  const env = { DATABASE_URL: 'postgresql://x/y', JWT_SECRET: 'a secret of the tests, 32 bytes and more' }
  const printed = await print(env)
  t.same(printed, { code: 0, stdout: 'YgtJZDHVEP1COUCzga90y5rJbWY9frknmUBw8R7Yrbc\n', stderr: '' })
  const SECRETS_KEY = printed.stdout.trim()
  t.same(
    await print({ ...env, JWT_SECRET: 'another secret of the tests, of 32 bytes', SECRETS_KEY }),
    printed
  )
})

t.test('config --check exits with 1 if a setting is invalid or misspelt', async (t) => {
  const cwd = temporaryFolder(t)
  const check = async (env: Record<string, string>) => await landfall(env, ['config', '--check'], { cwd })
  t.same(await check({ HOSTNAME: 'x', AWS_ENDPOINT_URL_SQS: 'http://localhost' }), {
    code: 0,
    stdout: 'The settings are valid\n',
    stderr: ''
  })
  t.match(await check({ PORT: 'x' }), { code: 1, stdout: '', stderr: /\nPORT must be a whole number/ })
  for (
    const [name, meant] of [['PROT', 'PORT'], ['Database_Url', 'DATABASE_URL'], ['LOGLEVEL', 'LOG_LEVEL']]
  ) {
    t.same(await check({ [name as string]: '1' }), {
      code: 1,
      stdout: '',
      stderr: `${name} in the environment is not a setting: did you mean ${meant}?\n`
    })
  }
})
