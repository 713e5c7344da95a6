import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { Owner } from '../../helpers/client.ts'
import { PROJECT, startService, temporaryFolder } from '../../helpers/service.ts'

const run = promisify(execFile)

t.test('the packed package, installed into an empty folder, serves on its embedded database', async (t) => {
  const folder = temporaryFolder(t)
  const packed = JSON
    .parse((await run('npm', ['pack', '--json', '--pack-destination', folder], { cwd: PROJECT })).stdout) as [
      { filename: string, size: number, files: { path: string }[] }
    ]
  const [{ filename, size, files }] = packed
  const paths = files.map(({ path }) => path)
  t.ok(size < 1_000_000, `${size} bytes`)
  for (
    const wanted of [
      ...'dist/cli/landfall.js dist/infra/pglite/embedded-worker.js'.split(' '),
      ...'packages/client/dist/index.js README.md LICENSE .env.example'.split(' ')
    ]
  ) t.ok(paths.includes(wanted), wanted)
  const migrations = readdirSync(join(PROJECT, 'prisma/migrations'), { withFileTypes: true }).filter((
    entry
  ) => entry.isDirectory()).map(({ name }) => name)
  for (const name of migrations) t.ok(paths.includes(`prisma/migrations/${name}/migration.sql`), name)
  t.same(
    paths.filter((path) => /^(src|test|bench|data|uploads|node_modules)\/|\.map$|\.log$|^\.env$/.test(path)),
    [],
    'nothing else'
  )

  // Copies the production dependencies of the lock file, because a real installation takes a minute and needs
  // the network.
  const modules = join(folder, 'node_modules')
  const lock = JSON.parse(readFileSync(join(PROJECT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { dev?: boolean, devOptional?: boolean }>
  }
  for (const [path, { dev, devOptional }] of Object.entries(lock.packages)) {
    if (
      dev === true || devOptional === true || !/^node_modules\/(@[^/]+\/)?[^/]+$/.test(path) ||
      !existsSync(join(PROJECT, path))
    ) continue
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    symlinkSync(join(PROJECT, path), join(folder, path))
  }
  t.notOk(existsSync(join(modules, 'typescript')), 'production dependencies only')
  await run('tar', ['-xzf', join(folder, filename), '-C', modules])
  renameSync(join(modules, 'package'), join(modules, 'landfall'))
  const { bin } = JSON.parse(readFileSync(join(modules, 'landfall/package.json'), 'utf8')) as {
    bin: { landfall: string }
  }
  const command = join(modules, 'landfall', bin.landfall)
  t.match(readFileSync(command, 'utf8'), /^#!\/usr\/bin\/env node\n/)
  const service = await startService(t, {
    DATA_DIR: join(folder, 'data'),
    UPLOADS_DIR: join(folder, 'uploads')
  }, ['sh', '-c', `cd '${folder}' && exec '${process.execPath}' '${command}' serve`])
  const owner = await Owner.signUp(service.url)
  const page = await owner.createPage(service.url, '{"from": "a package"}')
  t.equal(
    await (await fetch(`${service.url}/landing_pages/${page.public_id}`)).text(),
    '{"from": "a package"}'
  )
  const { stdout } = await run(process.execPath, [command, 'pages', 'get', page.id], {
    cwd: folder,
    env: { ...process.env, LANDFALL_URL: service.url, LANDFALL_KEY: owner.accessToken }
  })
  t.equal(stdout, '{"from": "a package"}')
})
