import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { PROJECT } from '../../helpers/service.ts'

const run = promisify(execFile)
const CACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'landfall-releases')

/**
 * Builds an earlier release from the history of this repository, with its own lock file. It is kept in
 * the user's cache folder, so that later runs start at once.
 *
 * @returns the command that serves it
 * @throws {Error} if the commit is missing, as in a shallow clone, or can't be built
 */
export async function buildRelease (commit: string): Promise<[string, ...string[]]> {
  const folder = join(CACHE, commit)
  if (!existsSync(folder)) {
    const temporary = `${folder}.${process.pid}`
    mkdirSync(temporary, { recursive: true })
    try {
      await checkOut(commit, temporary)
      await run('npm', ['ci', '--include=dev', '--prefer-offline', '--no-audit', '--no-fund'], {
        cwd: temporary
      })
      await run('npm', ['run', 'build'], { cwd: temporary })
      renameSync(temporary, folder)
    } finally {
      rmSync(temporary, { recursive: true, force: true })
    }
  }
  return [process.execPath, join(folder, 'dist/cli/landfall.js'), 'serve']
}

async function checkOut (commit: string, folder: string): Promise<void> {
  const archive = join(folder, 'release.tar')
  await run('git', ['archive', `--output=${archive}`, commit], { cwd: PROJECT }).catch((error: Error) => {
    throw new Error(`commit ${commit} is not in this clone; run \`git fetch --unshallow\` (${error.message})`)
  })
  await run('tar', ['-xf', archive, '-C', folder])
  rmSync(archive)
}
