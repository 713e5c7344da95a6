import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { findPrograms, MissingProgramError, programsNamedIn, providePrograms,
  type ProgramName } from '../../helpers/programs.ts'
import { claimRedis, createDatabase } from '../../helpers/servers.ts'
import { until } from '../../helpers/until.ts'
import { compiledPath } from '../../runner/compile.ts'

const ROOT = resolve(import.meta.dirname, '../../..')
const RUN = compiledPath('test/run.ts')

const PASSES =
  "import t from 'tap'\nt.test('good', async (t) => { t.ok(true); await t.test('inner', async (t) => t.equal(1, 1)) })\n"
const FAILS =
  "import t from 'tap'\nconsole.error('a hint')\nt.test('bad', async (t) => { t.ok(true); t.same({ colour: 'red' }, { colour: 'blue' }) })\n"
const SKIPS = "import t from 'tap'\nt.test('later', { skip: true }, async () => {})\n"
const HANGS =
  "import t from 'tap'\nt.test('patient', async () => { setInterval(() => {}, 1000); await new Promise(() => {}) })\n"
const BLOCKS = "import t from 'tap'\nt.test('busy', async () => { for (;;) {} })\n"

/** Creates a folder inside the project, so that the test files in it can import tap. */
function folderOf (t: Tap, files: Record<string, string>): string {
  mkdirSync(join(ROOT, '.tap'), { recursive: true })
  const folder = mkdtempSync(join(ROOT, '.tap/run-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content)
  return folder
}

interface Tap {
  teardown(action: () => unknown): unknown
}

function run (
  args: string[],
  env: NodeJS.ProcessEnv = {}
): { code: number | null, output: string, lastLine: string | undefined } {
  const result = spawnSync(process.execPath, [RUN, ...args], {
    cwd: ROOT,
    encoding: 'utf8',
    env: { ...process.env, TAP_TIMEOUT: '', ...env }
  })
  return {
    code: result.status,
    output: result.stdout + result.stderr,
    lastLine: result.stdout.trimEnd().split('\n').at(-1)
  }
}

t.test('the exit code and the last line show the result', async (t) => {
  const folder = folderOf(t, {
    'passes.test.ts': PASSES,
    'skips.test.ts': SKIPS,
    'fails.test.ts': FAILS,
    'other.ts': 'throw new Error()'
  })
  const good = run([join(folder, 'passes.test.ts'), join(folder, 'skips.test.ts')])
  t.equal(good.code, 0)
  t.equal(good.lastLine, '2 passed, 0 failed, 1 skipped')
  const bad = run([folder])
  t.equal(bad.code, 1)
  t.equal(bad.lastLine, '3 passed, 1 failed, 1 skipped')
  t.match(bad.output, /✗ bad > should be equivalent/)
  t.match(bad.output, /-\s+"colour": "blue",\s+\+\s+"colour": "red",/)
  t.match(bad.output, /a hint/, 'the output of the file is printed')
})

t.test('--retry runs a failed file once more and names it if it passes then', async (t) => {
  const folder = folderOf(t, { 'fails.test.ts': FAILS, 'passes.test.ts': PASSES })
  const marker = join(folder, 'ran')
  writeFileSync(
    join(folder, 'flaky.test.ts'),
    `import t from 'tap'
import { existsSync, writeFileSync } from 'node:fs'
t.test('second time', async (t) => {
  t.ok(existsSync('${marker}'), 'it ran before')
  writeFileSync('${marker}', '')
})
`
  )
  const both = run([folder, '--retry'])
  t.equal(both.code, 1, 'a file that fails twice fails')
  t.equal(both.lastLine, '4 passed, 1 failed')
  t.match(both.output, /^passed only the second time: \S*flaky\.test\.ts$/m)
  t.match(both.output, /^failed: \S*fails\.test\.ts$/m)
  rmSync(marker)
  const flaky = run([join(folder, 'flaky.test.ts'), '--retry'])
  t.equal(flaky.code, 0)
  t.match(flaky.output, /✗ second time > it ran before/, 'the first failure is printed')
})

t.test('a run without a test fails', async (t) => {
  const folder = folderOf(t, {
    'empty.test.ts': 'export {}\n',
    'skips.test.ts': SKIPS,
    'passes.test.ts': PASSES
  })
  const empty = run([join(folder, 'empty.test.ts')])
  t.equal(empty.code, 1)
  t.match(empty.output, /has no test in it/)
  t.equal(run([join(folder, 'skips.test.ts')]).code, 1)
  t.equal(run([join(folder, 'passes.test.ts'), '--grep=nothing has this name']).code, 1)
  t.equal(run([join(folder, 'passes.test.ts'), '--grep=good']).lastLine, '2 passed, 0 failed')
})

t.test('long tests run only with --soak, print their progress and set the exit code', async (t) => {
  const says = PASSES.replace("t.test('good'", "console.error('half of it is done')\nt.test('good'")
  const folder = folderOf(t, { 'passes.test.ts': PASSES, 'says.soak.ts': says })
  t.equal(run([folder]).lastLine, '2 passed, 0 failed')
  const soak = run([folder, '--soak'])
  t.equal(soak.code, 0)
  t.equal(soak.lastLine, '2 passed, 0 failed')
  t.match(soak.output, /started .*says\.soak\.ts\n {2}half of it is done\nok .*says\.soak\.ts/)
  t.notMatch(soak.output, 'passes.test.ts')
  const failing = run([folderOf(t, { 'fails.soak.ts': FAILS }), '--soak'])
  t.equal(failing.code, 1)
  t.match(failing.output, /✗ bad > should be equivalent/)
})

t.test('a wrong argument is reported in one line', async (t) => {
  for (
    const [args, message] of [[['no-such-file'], 'no such file or folder: no-such-file\n'], [['src'],
      'no test files (*.test.ts) in src\n']] as const
  ) {
    const { code, output } = run([...args])
    t.equal(code, 1)
    t.equal(output, message)
  }
  t.match(run(['--jobs=many']).output, /^--jobs takes a whole number from 1\n$/)
  t.match(run(['--bail', '--retry']).output, /^--bail leaves files out, so .*\n$/)
  t.match(run(['--colour']).output, /^Unknown option '--colour'.*\n$/)
})

t.test('a crash, a test that never ends and a test that blocks are failures with a name', async (t) => {
  const folder = folderOf(t, {
    'crashes.test.ts':
      "import t from 'tap'\nt.test('cut', async () => process.kill(process.pid, 'SIGKILL'))\n",
    'hangs.test.ts': HANGS,
    'blocks.test.ts': BLOCKS
  })
  const { code, output, lastLine } = run([folder, '--timeout=2'])
  t.equal(code, 1)
  t.match(output, /was ended by SIGKILL/)
  t.equal(
    output.match(/was ended by/g)?.length,
    1,
    'the kill after a timeout is not reported as a second failure'
  )
  t.match(output, /patient > timeout!/)
  t.match(output, /did not end within 2 s and was killed/)
  t.match(lastLine, /^0 passed, \d failed$/)
})

t.test('a test file that is run without the servers prints how to run it', async (t) => {
  const before = process.env
  t.teardown(() => {
    process.env = before
  })
  process.env = { ...before, TEST_DATABASE_URL: '', TEST_REDIS_URL: '' }
  const file = relative(process.cwd(), process.argv[1] ?? '')
  await t.rejects(createDatabase(t), {
    message: `TEST_DATABASE_URL is not set: run this with "npm test -- ${file}", which starts the servers`
  })
  await t.rejects(claimRedis(t), { message: /TEST_REDIS_URL is not set/ })
})

t.test('missing programs are reported in one line', async (t) => {
  const bare = { path: '', folders: [], isRoot: false, hasApt: true }
  t.same(Object.values(findPrograms(bare)).filter(Boolean), [])
  const message = (machine: typeof bare, wanted: ProgramName[]): string => {
    try {
      providePrograms(wanted, t.fail, machine)
      return ''
    } catch (error) {
      t.ok(error instanceof MissingProgramError)
      return (error as Error).message
    }
  }
  t.equal(
    message(bare, ['postgres', 'redis']),
    'The tests need PostgreSQL and Redis: install with "sudo apt-get install postgresql redis-server", or set TEST_DATABASE_URL and TEST_REDIS_URL'
  )
  t.equal(
    message(bare, ['redis']),
    'The tests need Redis: install with "sudo apt-get install redis-server", or set TEST_REDIS_URL'
  )
  t.equal(message(bare, ['nginx']), 'The tests need nginx: install with "sudo apt-get install nginx"')
  t.same(programsNamedIn("const a = provide('nginx')\nprovide('chromium'); provide(name); provide('what')"), [
    'nginx',
    'chromium'
  ])
  t.notMatch(message({ ...bare, isRoot: true, hasApt: false }, ['postgres', 'redis']), '\n')
  t.equal(message(bare, []), '', 'a server that is given need not be installed')
})

t.test('PostgreSQL is found in the folder that has both of its programs, also through a link on the PATH', async (t) => {
  const folder = t.testdir({
    real: { initdb: '', postgres: '', 'redis-server': '' },
    links: {},
    client: { initdb: '' }
  })
  spawnSync('chmod', ['+x', ...['initdb', 'postgres', 'redis-server'].map((name) =>
    join(folder, 'real', name)
  ), join(folder, 'client/initdb')])
  symlinkSync('../real/initdb', join(folder, 'links/initdb'))
  const find = (path: string, folders: string[] = []) =>
    findPrograms({ path, folders, isRoot: false, hasApt: false }).postgres
  t.equal(find(join(folder, 'client')), undefined)
  t.equal(find(join(folder, 'links')), join(folder, 'real'))
  t.equal(find(join(folder, 'client'), [join(folder, 'real')]), join(folder, 'real'))
})

for (const signal of ['SIGINT', 'SIGTERM', 'SIGKILL'] as const) {
  t.test(`${signal} during a run leaves no process and no file`, async (t) => {
    const temporary = mkdtempSync(join(tmpdir(), 'signal-'))
    t.teardown(() => rmSync(temporary, { recursive: true, force: true }))
    spawnSync('chmod', ['711', temporary])
    const helper = (name: string) => relative(join(ROOT, '.tap/x'), join(ROOT, `test/helpers/${name}.ts`))
    const ready = join(temporary, 'ready')
    const folder = folderOf(t, {
      'hangs.test.ts': `import t from 'tap'
import { startPostgresServer, startRedisServer } from '${helper('servers')}'
import { startService } from '${helper('service')}'
t.test('patient', async (t) => {
  const servers = await Promise.all([startPostgresServer(t), startRedisServer(t)])
  await startService(t, { DATABASE_URL: servers[0].url, JWT_SECRET: '${
        'x'.repeat(32)
      }', UPLOADS_DIR: process.env.TMPDIR + '/uploads' })
  const { writeFileSync } = await import('node:fs')
  writeFileSync('${ready}', String(servers.length))
  setInterval(() => {}, 1000)
  await new Promise(() => {})
})
`
    })
    // The run starts its own servers, as a run from a terminal does.
    const { TEST_DATABASE_URL, TEST_REDIS_URL, ...env } = process.env
    const child = spawn(process.execPath, [RUN, folder], {
      cwd: ROOT,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...env, TMPDIR: temporary }
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (data) => {
        output += String(data)
      })
    }
    const exited = once(child, 'exit')
    while (!existsSync(ready) && child.exitCode === null) await sleep(50)
    const mine = processesUsing(temporary)
    t.ok(mine.length >= 4, `two PostgreSQL, two Redis and more are running: ${mine.length} ${output}`)
    t.ok(mine.some((line) => line.includes('dist/cli/landfall.js')), 'a service is running')
    child.kill(signal)
    const [code] = await exited
    if (signal !== 'SIGKILL') {
      t.equal(code, signal === 'SIGINT' ? 130 : 143)
      t.same(filesIn(temporary), [], 'no file is left when it has ended')
      t.same(processesUsing(temporary), [], 'no process is left')
    } else {
      await until(() => filesIn(temporary).length === 0, 'the guardian has removed the files')
      await until(() => processesUsing(temporary).length === 0, 'the guardian has ended the processes')
    }
  })
}

/** Returns the files in a folder, without the file that says that the test runs. */
function filesIn (folder: string): string[] {
  return readdirSync(folder).filter((name) => name !== 'ready')
}

/** Returns the processes with the folder in their command line or, where it can be read, environment. */
function processesUsing (folder: string): string[] {
  return spawnSync('ps', ['-A', 'ewww', '-o', 'pid=,args='], { encoding: 'utf8' }).stdout.split('\n').filter((
    line
  ) => line.includes(folder) && !line.includes('ps -A'))
}
