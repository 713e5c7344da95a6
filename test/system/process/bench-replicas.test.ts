import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, readdirSync } from 'node:fs'
import t, { type Test } from 'tap'
import { PROJECT, temporaryFolder } from '../../helpers/service.ts'
import { compiledPath } from '../../runner/compile.ts'

// `npm run bench:replicas`: the simulation of replicas that share limits.

interface Run {
  code: number | null
  output: string
  progress: string
  /** Files that it left in its temporary folder. */
  left: string[]
}

async function simulate (t: Test, args: readonly string[]): Promise<Run> {
  const folder = temporaryFolder(t)
  chmodSync(folder, 0o711) // the account of Redis must be able to enter
  const child = spawn(process.execPath, [compiledPath('bench/replicas.ts'), ...args], {
    cwd: PROJECT,
    env: { ...process.env, TMPDIR: folder },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  t.teardown(() => child.kill('SIGTERM'))
  const texts = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      texts[name] += text
    })
  }
  const [code] = await once(child, 'close') as [number | null]
  const left = readdirSync(folder).filter((name) => name.startsWith('landfall-'))
  return { code, output: texts.stdout, progress: texts.stderr, left }
}

t.test('the simulation prints what clients got and what it cost, and leaves nothing behind', async (t) => {
  const { code, output, progress, left } = await simulate(t, ['--replicas=3', '--limits=30'])
  t.equal(code, 0, progress)
  t.same(left, [])
  const costs = String.raw`(\d+\.\d\d · ){2}\d+\.\d\d`
  for (const routing of ['random', 'one replica']) {
    const line = String
      .raw`\| 30 \| 3 \| 6 \| ${routing} \| \d\.\d\d to 1\.00 \| 0 \| ${costs} \| ${costs} \|`
    t.match(output, new RegExp(`^${line}$`, 'm'))
  }
  t.match(output, /^\| 30 \| 3 \| 6 \| random \| \d\.\d\d to [01]\.\d\d \| 0 \| \d+\.\d\d \| \d+\.\d\d \|$/m)
  t.match(output, /^\| 30 \| 3 \| 6 \| random \| .* \| 0\.00 · /m, 'reads within the shares need no command')
  t.match(progress, '3 replicas, limit 30, 10 % abusive, random')
})

t.test('--help prints the options; a wrong command line is reported in one line', async (t) => {
  const { code, output } = await simulate(t, ['--help'])
  t.equal(code, 0)
  t.match(output, /--replicas=N,N .*\n.*--limits=N,N/)
  for (
    const [args, line] of [
      [['--replicas=none'], '--replicas takes whole numbers from 1\n'],
      [['--limits=31'], '--limits takes 30 or 1000\n'],
      [['--fast'], /^Unknown option '--fast'[^\n]*\n$/]
    ] as const
  ) {
    const { code, progress } = await simulate(t, args)
    t.equal(code, 1)
    t.match(progress, line)
  }
})
