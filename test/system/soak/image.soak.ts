import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync,
  writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import t, { type Test } from 'tap'
import { PNG } from '../../helpers/assets.ts'
import { JWT_SECRET } from '../../helpers/app.ts'
import { call, Owner } from '../../helpers/client.ts'
import { claimRedis, createDatabase } from '../../helpers/servers.ts'
import { PROJECT, runService, startService, temporaryFolder } from '../../helpers/service.ts'

// Carries out the steps of the Dockerfile without Docker and runs the service from the result. This is a long
// test because a build takes half a minute.

interface Step {
  readonly instruction: string
  readonly rest: string
}

/** Returns the steps of each stage. */
function stages (): Step[][] {
  const lines = readFileSync(join(PROJECT, 'Dockerfile'), 'utf8').replace(/\\\n/g, ' ').split('\n').filter((
    line
  ) => /^[A-Z]+ /.test(line))
  const all: Step[][] = []
  for (const line of lines) {
    const [instruction = '', rest = ''] = line.split(/ (.*)/s)
    if (instruction === 'FROM') all.push([])
    else all.at(-1)?.push({ instruction, rest })
  }
  return all
}

/** Carries out the steps of the Dockerfile in a folder; returns the image's `/app` and its command. */
function build (folder: string): { app: string, entry: string[], command: string[] } {
  const context = folderOf(folder, 'context')
  // .dockerignore excludes everything, then includes the names after "!", then excludes some of their
  // content.
  const lines = readFileSync(join(PROJECT, '.dockerignore'), 'utf8').split('\n').filter((line) => line !== '')
  for (const name of lines.filter((line) => line.startsWith('!')).map((line) => line.slice(1))) {
    cpSync(join(PROJECT, name), join(context, name), { recursive: true })
  }
  for (const name of lines.filter((line) => !/^[!*]/.test(line))) {
    rmSync(join(context, name), { recursive: true, force: true })
  }
  // The user "node" of the image doesn't exist on this machine.
  const tools = folderOf(folder, 'tools')
  writeFileSync(join(tools, 'chown'), '#!/bin/sh\nexit 0\n')
  chmodSync(join(tools, 'chown'), 0o755)
  const env = { ...process.env, PATH: `${tools}:${process.env.PATH}` }

  const apps: string[] = []
  let entry: string[] = []
  let command: string[] = []
  for (const steps of stages()) {
    const app = folderOf(folder, `stage-${apps.length}`)
    for (const { instruction, rest } of steps) {
      if (instruction === 'COPY') {
        const words = rest.split(' ')
        const from = words[0]?.startsWith('--from=') === true ? join(apps[0] as string) : context
        const target = words.at(-1) as string
        for (const source of words.slice(from === context ? 0 : 1, -1)) {
          const path = join(from, source.replace('/app/', ''))
          cpSync(
            path,
            target.endsWith('/') ? join(app, target, source.split('/').at(-1) as string) : join(app, target),
            { recursive: true, verbatimSymlinks: true }
          )
        }
      } else if (instruction === 'RUN' && rest === 'npm ci') {
        // Copied rather than linked, because the folder of the tests may be on another file system.
        execFileSync('cp', ['-a', join(PROJECT, 'node_modules'), app])
      } else if (instruction === 'RUN') {
        execFileSync('sh', ['-c', rest], { cwd: app, env, stdio: ['ignore', 'ignore', 'pipe'] })
      } else if (instruction === 'ENTRYPOINT') entry = JSON.parse(rest)
      else if (instruction === 'CMD') command = JSON.parse(rest)
    }
    apps.push(app)
  }
  return { app: apps.at(-1) as string, entry, command }
}

function folderOf (parent: string, name: string): string {
  const folder = join(parent, name)
  mkdirSync(folder, { recursive: true })
  return folder
}

/** Returns every file with its size and time, except in the folders that are mounted. */
function snapshot (app: string): string[] {
  return readdirSync(app, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !/^(data|uploads)\//.test(relative(app, path)))
    .map((path) => `${path} ${statSync(path).size} ${statSync(path).mtimeMs}`)
}

async function use (t: Test, url: string): Promise<void> {
  const owner = await Owner.signUp(url)
  const page = await owner.createPage(url, '{"from":"the image"}')
  t.equal((await call('GET', `${url}/landing_pages/${page.public_id}`)).text, '{"from":"the image"}')
  const asset = await owner.store(url, PNG, 'dot.png')
  t.match(asset, { content_type: 'image/png', width: 1 })
  t.equal((await call('GET', `${url}${new URL(asset.url).pathname}`)).status, 200)
  t.equal((await call('GET', `${url}/landing_pages/unknown`)).status, 404)
}

t.test('the image of the Dockerfile is small and contains everything that the service needs', async (t) => {
  const { app, entry, command } = build(temporaryFolder(t))
  const inApp = (...args: string[]) =>
    ['sh', '-c', `cd '${app}' && exec "$0" "$@"`, process.execPath, ...entry.slice(1), ...args] as [
      string,
      ...string[]
    ]
  t.equal(entry[0], 'node')
  for (const name of ['prisma', 'typescript', 'tsx', 'tap', '@prisma/studio-core', '@landfall/client']) {
    t.notOk(existsSync(join(app, 'node_modules', name)), `no ${name}`)
  }
  const megabytes = Number(execFileSync('du', ['-sm', app], { encoding: 'utf8' }).split('\t')[0])
  t.comment(`${megabytes} MB`)
  t.ok(megabytes < 180, `${megabytes} MB`)

  const before = snapshot(app)
  await t.test('the image serves on PostgreSQL and Redis', async (t) => {
    const env = {
      NODE_ENV: 'production',
      DATABASE_URL: await createDatabase(t),
      REDIS_URL: await claimRedis(t),
      JWT_SECRET,
      MIGRATE_ON_START: 'false'
    }
    const early = await runService(t, { ...env, PORT: '0' }, inApp(...command))
    t.match(early, { code: 1, output: /The database lacks migrations / })
    t.match(await runService(t, env, inApp('migrate')), { code: 0 })
    const service = await startService(t, env, inApp(...command))
    await use(t, service.url)
    const { accessToken: LANDFALL_KEY } = await Owner.signUp(service.url)
    const listed = await runService(t, { LANDFALL_URL: service.url, LANDFALL_KEY }, inApp('pages', 'list'))
    t.match(listed, { code: 0, output: /There are no pages yet/ })
    t.equal(await service.end('SIGTERM'), 0)
  })
  await t.test('the image serves without any settings', async (t) => {
    const service = await startService(t, { NODE_ENV: 'production' }, inApp(...command))
    await use(t, service.url)
    t.equal(await service.end('SIGTERM'), 0)
  })
  t.same(snapshot(app), before, 'the service wrote only to data and uploads')
})
