import { existsSync } from 'node:fs'

// npm run db:migrate: from the sources where they can run, otherwise (an image, npm ci --omit=dev) from the build.

const source = new URL('../src/database/migrate-cli.ts', import.meta.url)
const built = new URL('../dist/database/migrate-cli.js', import.meta.url)

const tsx = await import('tsx/esm/api').catch(() => undefined)
if (existsSync(source) && tsx !== undefined) {
  tsx.register()
  await import(source.href)
} else if (existsSync(built)) {
  await import(built.href)
} else {
  process.stderr.write('The migrations need the build or the development dependencies: run npm run build, or npm ci\n')
  process.exitCode = 1
}
