import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { PROJECT, temporaryFolder } from '../../helpers/service.ts'
import type { Teardown } from '../../helpers/servers.ts'

// Installs the packed client into an empty folder, and reads the examples of its README.

const run = promisify(execFile)

export interface CodeBlock {
  readonly section: string
  readonly language: string
  readonly text: string
}

/** Returns the code blocks of the client's README, in order. */
export function readmeBlocks (): CodeBlock[] {
  const readme = readFileSync(join(PROJECT, 'packages/client/README.md'), 'utf8')
  return readme.split(/^## /m).flatMap((part) =>
    [...part.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language = '', text = '']) => ({
      section: part.slice(0, part.indexOf('\n')),
      language,
      text
    }))
  )
}

/** Returns the code block of a section; throws unless the section has exactly one. */
export function readmeBlock (section: string): string {
  const blocks = readmeBlocks().filter((block) => block.section === section)
  if (blocks.length !== 1) throw new Error(`"${section}" has ${blocks.length} code blocks`)
  return (blocks[0] as CodeBlock).text
}

/**
 * Installs the client of a service with the commands of its README.
 *
 * @returns the folder of the installation
 */
export async function installClient (t: Teardown, url: string): Promise<string> {
  const folder = temporaryFolder(t)
  await runInProject(folder, readmeBlock('Install').replaceAll('http://localhost:3000', url))
  return folder
}

/** Runs commands in the folder of a project. */
export async function runInProject (folder: string, commands: string): Promise<void> {
  await run('sh', ['-euc', commands], {
    cwd: folder,
    // `npm ci` has already put the dependencies into npm's cache.
    env: { ...process.env, npm_config_prefer_offline: 'true', npm_config_audit: 'false' }
  })
}
