import { spawn } from 'node:child_process'

// Runs the commands of a guide as they are written.

/**
 * Returns the commands of a section, one string per code block.
 *
 * @param guide Markdown
 */
export function commandsOf (guide: string, heading: string): string[] {
  const section = guide.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)) ?? ''
  return [...section.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block)
}

/**
 * Runs code blocks in one shell, as if a reader pasted them.
 *
 * @param url takes the place of http://localhost:3000
 * @returns the output of each block
 * @throws {Error} if a command fails
 */
export async function paste (blocks: readonly string[], cwd: string, url: string): Promise<string[]> {
  const mark = '=== next block ==='
  const script = blocks.join(`echo; echo '${mark}'\n`).replaceAll('http://localhost:3000', url)
  const shell = spawn('bash', ['-eu', '-o', 'pipefail', '-c', script], {
    cwd,
    stdio: ['ignore', 'pipe', 'inherit']
  })
  let output = ''
  shell.stdout.on('data', (data: Buffer) => {
    output += data.toString()
  })
  const code = await new Promise((resolve) => shell.on('close', resolve))
  if (code !== 0) throw new Error(`the commands ended with ${code} after:\n${output}`)
  return output.split(`\n${mark}\n`).map((part) => part.trim())
}
