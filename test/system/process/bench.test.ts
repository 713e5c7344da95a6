import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { BenchResult } from '../../../bench/results.ts'
import { PROJECT, temporaryFolder } from '../../helpers/service.ts'
import { compiledPath } from '../../runner/compile.ts'

interface Run {
  code: number | null
  output: string
  progress: string
  left: string[]
}

/** Runs the benchmark in a temporary folder; `onProgress` gets all of its progress output so far. */
async function bench (
  t: Test,
  args: string[],
  onProgress: (progress: string, pid: number) => void = () => {}
): Promise<Run> {
  const folder = temporaryFolder(t)
  chmodSync(folder, 0o711) // the account of PostgreSQL must be able to enter
  const child = spawn(
    process.execPath,
    [compiledPath('bench/run.ts'), '--rounds=1', '--seconds=1', ...args],
    {
      cwd: PROJECT,
      env: { ...process.env, TMPDIR: folder },
      stdio: ['ignore', 'pipe', 'pipe']
    }
  )
  t.teardown(() => child.kill('SIGTERM'))
  let output = ''
  let progress = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    progress += text
    onProgress(progress, child.pid as number)
  })
  const [code] = await once(child, 'close') as [number | null]
  return { code, output, progress, left: readdirSync(folder).filter((name) => name.startsWith('landfall-')) }
}

/** Writes a contender that sends the given answer. */
function server (t: Test, answer: string): string {
  const file = join(temporaryFolder(t), 'server.mjs')
  writeFileSync(
    file,
    `
    import { readFileSync } from 'node:fs'
    import { createServer } from 'node:http'
    const document = readFileSync(process.env.DOCUMENT_FILE)
    let count = 0
    createServer((request, response) => {
      response.setHeader('content-type', 'application/json')
      count++
      ${answer}
    }).listen(Number(process.env.PORT), process.env.HOST)
  `
  )
  return file
}

t.test('the benchmark measures and compares contenders, writes the numbers and draws them', async (t) => {
  const folder = temporaryFolder(t)
  const [json, svg] = [join(folder, 'result.json'), join(folder, 'ratios.svg')]
  const { code, output, progress, left } = await bench(t, ['--only=node:http 2,ours: 304 2',
    '--generator=autocannon', '--connections=8', `--json=${json}`, `--svg=${svg}`])
  t.equal(code, 0, progress)
  t.same(left, [], 'nothing is left behind')
  // The contenders that these two are compared with are measured, too.
  const compared = ['ours: one hot address 2 KB', 'node:http 2 KB', 'ours: 304 2 KB']
  const names = ['bare Fastify 2 KB', ...compared.slice(0, 2), 'bare Fastify 304', ...compared.slice(2)]
  for (const name of names) {
    t.match(output, new RegExp(`^\\| ${name} \\| [\\d,]+¹? \\|`, 'm'))
    t.match(progress, `round 1 of 1, ${name}: `)
  }
  t.match(output, /≥ 1 × ours: one hot address 2 KB: \d+\.\d\d \*\*(met|missed)\*\*/)

  const result = JSON.parse(readFileSync(json, 'utf8')) as BenchResult
  t.same(result.contenders.map(({ name }) => name), names)
  for (const { name, rounds } of result.contenders) {
    t.equal(rounds.length, 1, name)
    for (const { rate, p50Ms, p99Ms } of rounds) {
      t.ok(rate > 0 && p50Ms > 0 && p99Ms >= p50Ms, `${name}: ${JSON.stringify(rounds)}`)
    }
  }
  const picture = readFileSync(svg, 'utf8')
  t.ok(isWellFormed(picture), picture)
  for (const name of compared) t.match(picture, `>${name}<`)
})

for (
  const [name, answer, complaint] of [
    ['a wrong document', 'response.end(Buffer.from(document).fill(120))',
      'added 2 KB: the document differs from the stored one'],
    ['some errors', 'if (count % 7 === 0) response.statusCode = 500; response.end(document)',
      'added 2 KB: \\d+ of \\d+ answers had a status of 400 or more']
  ] as const
) {
  t.test(`the run fails if a contender sends ${name}`, async (t) => {
    const { code, output, progress, left } = await bench(t, ['--only=added 2', '--connections=8',
      `--add=${server(t, answer)}`])
    t.equal(code, 1)
    t.match(progress, new RegExp(`^wrong answer: ${complaint}`, 'm'))
    t.equal(output, '', 'no table')
    t.same(left, [])
  })
}

t.test('Ctrl-C ends the benchmark and everything that it started', async (t) => {
  let signalled = false
  const { code, left } = await bench(t, ['--only=bare'], (progress, pid) => {
    if (signalled || !progress.includes('warm-up')) return
    signalled = true
    process.kill(pid, 'SIGINT')
  })
  t.equal(code, 130)
  t.same(left, [])
})

t.test('a wrong command line is reported in one line', async (t) => {
  for (
    const [args, line] of [
      [['--rounds=none'], '--rounds takes a whole number from 1\n'],
      [['--only=nobody'], 'no contender is called nobody; --list names them\n'],
      [['--fast'], /^Unknown option '--fast'[^\n]*\n$/]
    ] as const
  ) {
    const { code, progress } = await bench(t, [...args])
    t.equal(code, 1)
    t.match(progress, line)
  }
})

function isWellFormed (xml: string): boolean {
  const open: string[] = []
  for (const [, end, name = '', empty] of xml.matchAll(/<(\/?)([a-z]+)(?: [a-zA-Z-]+="[^"<]*")*(\/?)>/g)) {
    if (end === '/') {
      if (open.pop() !== name) return false
    } else if (empty !== '/') open.push(name)
  }
  return open.length === 0 && /^<svg /.test(xml) && !/[<&](?!\/?[a-z]|amp;|lt;|gt;)/.test(xml)
}
