import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t from 'tap'
import { compiledPath } from '../../runner/compile.ts'
import { countFlakes } from '../../runner/flakes.ts'

// A run must not pass with tests that failed or did not run.

const ROOT = resolve(import.meta.dirname, '../../..')
const RUN = compiledPath('test/run.ts')

const PASSES =
  "import t from 'tap'\nt.test('good', async (t) => { t.ok(true); await t.test('inner', async (t) => " +
  't.equal(1, 1)) })\n'
const FAILS =
  "import t from 'tap'\nconsole.error('a hint')\nt.test('bad', async (t) => { t.ok(true); t.same({ " +
  "colour: 'red' }, { colour: 'blue' }) })\n"
const SKIPS = "import t from 'tap'\nt.test('later', { skip: true }, async () => {})\n"
const HANGS = "import t from 'tap'\nt.test('patient', async () => { setInterval(() => {}, 1000); await new " +
  'Promise(() => {}) })\n'
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
  t.equal(both.lastLine, '4 passed, 1 failed, 1 passed only the second time')
  t.match(both.output, /^passed only the second time: \S*flaky\.test\.ts > second time$/m)
  t.match(both.output, /^failed: \S*fails\.test\.ts$/m)
  rmSync(marker)
  const flaky = run([join(folder, 'flaky.test.ts'), '--retry'])
  t.equal(flaky.code, 0)
  t.match(flaky.output, /✗ second time > it ran before/, 'the first failure is printed')
})

t.test('a table counts the tests that passed only the second time', async (t) => {
  const head = '| test | how often | cause |\n|---|---|---|\n'
  const once = countFlakes(head, ['test/a.test.ts > one', 'test/b.test.ts > two | three'])
  t.equal(once, `${head}| \`test/a.test.ts > one\` | 1 | |\n| \`test/b.test.ts > two \\| three\` | 1 | |\n`)
  const known = once.replace('one` | 1 | |', 'one` | 19 | a race |')
  t.equal(
    countFlakes(known, ['test/a.test.ts > one', 'test/b.test.ts > two | three']),
    `${head}| \`test/a.test.ts > one\` | 20 | a race |\n| \`test/b.test.ts > two \\| three\` | 2 | |\n`
  )
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
