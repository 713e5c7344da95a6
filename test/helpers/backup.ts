import { execFileSync, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { createBackup } from '../../src/cli/backup/create.ts'
import type { BackupConfig } from '../../src/cli/backup/common.ts'
import { PASSWORD } from './app.ts'
import { call, Owner } from './client.ts'
import { PROJECT, QUICK, runService } from './service.ts'

// Creates data to back up, runs the commands, and checks that a restored service has all of the data.

export interface Outcome {
  readonly code: number | string | null
  readonly output: string
}

export const keyOf = (path: string): string => path.split('/').at(-1) as string

/** Uploads and deletes synchronously, so that a backup in the same process makes no step meanwhile. */
export class Interloper {
  readonly #url: string
  readonly #token: string

  constructor (owner: Owner, url: string) {
    this.#url = url
    this.#token = `Authorization: Bearer ${owner.accessToken}`
  }

  put (text: string): { id: string, url: string } {
    return JSON
      .parse(execFileSync('curl', [
        '-sf',
        '-H',
        this.#token,
        '-F',
        'asset[file]=@-;filename=x',
        `${this.#url}/assets`
      ], { encoding: 'utf8', input: text }))
  }

  drop ({ id }: { id: string }): void {
    execFileSync('curl', ['-sf', '-H', this.#token, '-X', 'DELETE', `${this.#url}/assets/${id}`])
  }
}

/** Makes a backup, uploads and deletes assets between its steps, and checks the files in the backup. */
export async function backUpBetweenSteps (
  t: Test,
  place: BackupConfig,
  directory: string,
  interloper: Interloper
): Promise<void> {
  const kept = interloper.put('there all the time')
  const copied = interloper.put('deleted after its file and its row were copied')
  const gone = interloper.put('deleted after its file was copied, before its row')
  const made: { id: string, url: string }[] = []
  let step = ''
  const report = await createBackup(place, directory, {
    onProgress (progress) {
      if (progress.step === step) return
      step = progress.step
      if (step === 'copying the database') {
        interloper.drop(gone)
        made.push(
          interloper.put('its row is copied before its file'),
          interloper.put('deleted between its row and its file')
        )
      } else if (step === 'reading the copy of the database') {
        interloper.drop(copied)
        interloper.drop(made[1] as { id: string })
        made.push(interloper.put('made after the database was copied'))
      }
    }
  })
  t.same(report.problems, [])
  t.equal(report.deleted, 1)
  const files = readdirSync(join(directory, 'uploads'))
  t.same([kept, copied, gone, ...made].map(({ url }) => files.includes(keyOf(url))), [
    true,
    true,
    false,
    true,
    false,
    false
  ])
}

/** Runs `backup`, `restore` or `verify` as a process. */
export async function command (t: Test, env: Record<string, string>, ...args: string[]): Promise<Outcome> {
  return await runService(t, env, cli(...args))
}

/** Runs a command that has to succeed, and returns its output. */
export async function succeed (t: Test, env: Record<string, string>, ...args: string[]): Promise<string> {
  const { code, output } = await command(t, env, ...args)
  t.equal(code, 0, output)
  return output
}

export const cli = (
  ...args: string[]
): [string, ...string[]] => [process.execPath, 'dist/cli/landfall.js', ...args]

/** Runs a command, and sends it and its programs signals when it begins a step. */
export async function signalAt (
  step: string,
  signals: NodeJS.Signals[],
  env: Record<string, string>,
  ...args: string[]
): Promise<{ code: number | null, signal: NodeJS.Signals | null, output: string }> {
  const [program, ...rest] = cli(...args)
  const child = spawn(program, rest, {
    cwd: PROJECT,
    env: { ...process.env, NODE_OPTIONS: QUICK, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true
  })
  let output = ''
  child.stderr.on('data', (data: Buffer) => {
    output += data.toString()
    if (output.includes(step)) {
      for (const signal of signals.splice(0)) process.kill(-(child.pid as number), signal)
    }
  })
  const [code, signal] = await once(child, 'close') as [number | null, NodeJS.Signals | null]
  return { code, signal, output }
}

/** Runs a block of shell commands of the documentation in the project's folder. */
export async function runBlock (block: string, env: NodeJS.ProcessEnv): Promise<Outcome> {
  const shell = spawn('bash', ['-eu', '-o', 'pipefail', '-c', block], {
    cwd: PROJECT,
    env: { ...process.env, NODE_OPTIONS: QUICK, ...env },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  let output = ''
  for (const stream of [shell.stdout, shell.stderr]) {
    stream.on('data', (data: Buffer) => {
      output += data.toString()
    })
  }
  await once(shell, 'close')
  return { code: shell.exitCode, output }
}

export interface Uploaded {
  readonly id: string
  readonly path: string
  readonly checksum: string
}

export async function upload (owner: Owner, url: string, bytes: Uint8Array): Promise<Uploaded> {
  const answer = await owner.upload(url, bytes, 'tab\tand\u2028line.bin')
  if (answer.status !== 201) throw new Error(`${answer.status} ${answer.text}`)
  const record = JSON.parse(answer.text) as { id: string, url: string, checksum: string }
  return { id: record.id, path: new URL(record.url).pathname, checksum: record.checksum }
}

/** Documents whose bytes change if anything parses and serialises them. */
const DOCUMENTS = [
  '{"z": 1.0,\n\t"a": 1e2, "a": "\\u00e9\u2028\\/", "__proto__": null}',
  '[]',
  `["${'ä'.repeat(100_000)}"]`
]

/** The data of one owner, and the check that a restored service has all of it. */
export class Belongings {
  readonly owner: Owner
  readonly #pages: { publicId: string, etag: string, document: string }[] = []
  readonly #uploads: Uploaded[] = []
  #refreshToken = ''
  #endedToken = ''

  private constructor (owner: Owner) {
    this.owner = owner
  }

  static async create (url: string): Promise<Belongings> {
    const all = new Belongings(await Owner.signUp(url))
    for (const document of DOCUMENTS) {
      const { public_id: publicId, etag } = await all.owner.createPage(url, document)
      all.#pages.push({ publicId, etag, document })
    }
    for (const size of [1, 3000, 70_000]) all.#uploads.push(await upload(all.owner, url, randomBytes(size)))

    const ended = await all.#signIn(url)
    await call('DELETE', `${url}/auth/sign_out`, {
      json: { refresh_token: ended.refresh_token },
      headers: { authorization: `Bearer ${ended.access_token}` }
    })
    all.#endedToken = ended.refresh_token
    const renewed = await call('POST', `${url}/auth/refresh`, {
      json: { refresh_token: (await all.#signIn(url)).refresh_token }
    })
    all.#refreshToken = (JSON.parse(renewed.text) as { refresh_token: string }).refresh_token
    return all
  }

  /** Checks all data once; uses up the refresh token. */
  async check (t: Test, url: string): Promise<void> {
    for (const { publicId, etag, document } of this.#pages) {
      const { status, text, headers } = await call('GET', `${url}/landing_pages/${publicId}`, {
        headers: { 'accept-encoding': 'identity' }
      })
      t.equal(status, 200)
      t.ok(text === document, 'the document is the same byte for byte')
      t.equal(headers.get('etag'), etag)
    }
    for (const { path, checksum } of this.#uploads) {
      const response = await fetch(url + path)
      t.equal(createHash('sha256').update(Buffer.from(await response.arrayBuffer())).digest('hex'), checksum)
    }
    t.equal((await this.owner.call('GET', `${url}/auth/me`)).status, 200, 'access tokens are valid')
    t.ok(await this.#signIn(url), 'the account signs in')
    const refresh = async (token: string) =>
      (await call('POST', `${url}/auth/refresh`, { json: { refresh_token: token } })).status
    t.equal(await refresh(this.#refreshToken), 200, 'the refresh token is valid')
    t.equal(await refresh(this.#endedToken), 401, 'an ended session stays ended')
    const created = await this.owner.createPage(url, '{}')
    t.equal(
      (await call('GET', `${url}/landing_pages/${created.public_id}`)).text,
      '{}',
      'pages can be written'
    )
  }

  async #signIn (url: string): Promise<{ access_token: string, refresh_token: string }> {
    const answer = await call('POST', `${url}/auth/sign_in`, {
      json: { user: { email: this.owner.email, password: PASSWORD } }
    })
    if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`)
    return JSON.parse(answer.text) as { access_token: string, refresh_token: string }
  }
}

/** Uploads and deletes assets until the test ends. */
export class Storm {
  readonly #loops: Promise<void>[]
  readonly statuses = new Map<string, number>()
  #stopped = false

  constructor (t: Test, owner: Owner, url: string) {
    this.#loops = Array.from({ length: 2 }, async () => await this.#run(owner, url))
    t.teardown(async () => await this.stop())
  }

  async stop (): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#loops)
  }

  async #run (owner: Owner, url: string): Promise<void> {
    const left: string[] = []
    while (!this.#stopped) {
      const answer = await owner.upload(url, randomBytes(20_000))
      this.#count('upload', answer.status)
      if (answer.status === 201) left.push((JSON.parse(answer.text) as { id: string }).id)
      // Some assets are deleted later, some at once.
      const goes = left.length > 5 ? left.splice(Math.floor(Math.random() * left.length), 1)[0] : undefined
      if (goes !== undefined) {
        this.#count('deletion', (await owner.call('DELETE', `${url}/assets/${goes}`)).status)
      }
      await sleep(100)
    }
  }

  #count (what: string, status: number): void {
    this.statuses.set(`${what} ${status}`, (this.statuses.get(`${what} ${status}`) ?? 0) + 1)
  }
}
