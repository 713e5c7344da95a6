import { execFileSync, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { createBackup } from '../../src/cli/backup/create.ts'
import type { BackupConfig } from '../../src/cli/backup/common.ts'
import { call, Owner, type StoredAsset } from './client.ts'
import { PROJECT, QUICK, runService } from './service.ts'

// Creates data to back up, runs the commands, and checks that a restored service has all of the data.

export const keyOf = (path: string): string => path.split('/').at(-1) as string

/** Makes a backup, uploads and deletes assets between its steps, and checks the files in the backup. */
export async function backUpBetweenSteps (
  t: Test,
  place: BackupConfig,
  directory: string,
  owner: Owner,
  url: string
): Promise<void> {
  // Synchronously, so that a backup in the same process makes no step meanwhile.
  const curl = (input: string, ...args: string[]): string =>
    execFileSync('curl', ['-sf', '-H', `Authorization: Bearer ${owner.accessToken}`, ...args], {
      encoding: 'utf8',
      input
    })
  const put = (text: string): { id: string, url: string } =>
    JSON.parse(curl(text, '-F', 'asset[file]=@-;filename=x', `${url}/assets`))
  const drop = ({ id }: { id: string }) => curl('', '-X', 'DELETE', `${url}/assets/${id}`)
  const kept = put('there all the time')
  const copied = put('deleted after its file and its row were copied')
  const gone = put('deleted after its file was copied, before its row')
  const made: { id: string, url: string }[] = []
  let step = ''
  const report = await createBackup(place, directory, {
    onProgress (progress) {
      if (progress.step === step) return
      step = progress.step
      if (step === 'copying the database') {
        drop(gone)
        made.push(put('its row is copied before its file'), put('deleted between its row and its file'))
      } else if (step === 'reading the copy of the database') {
        drop(copied)
        drop(made[1] as { id: string })
        made.push(put('made after the database was copied'))
      }
    }
  })
  t.same(report.problems, [])
  t.equal(report.deleted.length, 1)
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
export const command = async (t: Test, env: Record<string, string>, ...args: string[]) =>
  await runService(t, env, cli(...args))

/** Runs a command that has to succeed, and returns its output. */
export async function succeed (t: Test, env: Record<string, string>, ...args: string[]): Promise<string> {
  const { code, output } = await command(t, env, ...args)
  t.equal(code, 0, output)
  return output
}

/** Runs a command that has to fail with this output. */
export async function fails (
  t: Test,
  env: Record<string, string>,
  args: string[],
  output: RegExp
): Promise<void> {
  t.match(await command(t, env, ...args), { code: 1, output })
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
) {
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
export async function runBlock (block: string, env: NodeJS.ProcessEnv) {
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

/** Uploads a file whose name has characters that would break lines and columns. */
export const upload = async (owner: Owner, url: string, bytes: Uint8Array): Promise<StoredAsset> =>
  await owner.store(url, bytes, 'tab\tand\u2028line.bin')

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
  readonly #uploads: StoredAsset[] = []
  /** A session with a refresh token that replaced another one, and a session that has ended. */
  readonly #renewed: Owner
  readonly #ended: Owner

  private constructor (owner: Owner, renewed: Owner, ended: Owner) {
    this.owner = owner
    this.#renewed = renewed
    this.#ended = ended
  }

  static async create (url: string): Promise<Belongings> {
    const owner = await Owner.signUp(url)
    const [renewed, ended] = [await Owner.signIn(url, owner.email), await Owner.signIn(url, owner.email)]
    await renewed.refresh(url)
    await ended.signOut(url)
    const all = new Belongings(owner, renewed, ended)
    for (const document of DOCUMENTS) {
      const { public_id: publicId, etag } = await owner.createPage(url, document)
      all.#pages.push({ publicId, etag, document })
    }
    for (const size of [1, 3000, 70_000]) all.#uploads.push(await upload(owner, url, randomBytes(size)))
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
    await this.checkUploads(t, url)
    t.equal(await this.owner.accessStatus(url), 200, 'access tokens are valid')
    t.equal(await this.owner.signInStatus(url), 200, 'the account signs in')
    t.equal(await this.#renewed.refresh(url), 200, 'the refresh token is valid')
    t.equal(await this.#ended.refresh(url), 401, 'an ended session stays ended')
    const { public_id: publicId } = await this.owner.createPage(url, '{}')
    t.equal((await call('GET', `${url}/landing_pages/${publicId}`)).text, '{}', 'pages can be written')
  }

  async checkUploads (t: Test, url: string): Promise<void> {
    for (const { path, checksum } of this.#uploads) {
      const response = await fetch(url + path)
      t.equal(createHash('sha256').update(Buffer.from(await response.arrayBuffer())).digest('hex'), checksum)
    }
  }
}

/** Uploads and deletes assets until the test ends. */
export class Storm {
  readonly #loops: Promise<void>[]
  readonly statuses = new Set<string>()
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
      this.statuses.add(`upload ${answer.status}`)
      if (answer.status === 201) left.push((JSON.parse(answer.text) as { id: string }).id)
      // Some assets are deleted later, some at once.
      const goes = left.length > 5 ? left.splice(Math.floor(Math.random() * left.length), 1)[0] : undefined
      if (goes !== undefined) {
        const { status } = await owner.call('DELETE', `${url}/assets/${goes}`)
        this.statuses.add(`deletion ${status}`)
      }
      await sleep(100)
    }
  }
}
