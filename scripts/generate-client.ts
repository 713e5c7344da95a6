import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import openapiTS, { astToString, type OpenAPI3 } from 'openapi-typescript'
import type { FastifyInstance } from 'fastify'

// Writes the types of @landfall/client from the service's OpenAPI document.

/** The generated file. */
export const API_FILE = resolve(import.meta.dirname, '../packages/client/src/api.ts')

/** Settings with which the service has all of its routes. It sends no mail, because nobody signs up. */
export const MAIL = {
  SMTP_URL: 'smtp://localhost',
  MAIL_FROM: 'landfall@example.com',
  BASE_URL: 'http://localhost:3000'
}

const HEADER = `// Generated from the service's OpenAPI document by \`npm run generate:client\`. Don't edit.

`

/** Returns the TypeScript types of an app's routes. */
export async function generateTypes (app: FastifyInstance): Promise<string> {
  const response = await app.inject('/openapi.json')
  if (response.statusCode !== 200) throw new Error(`/openapi.json answered ${response.statusCode}`)
  return HEADER + astToString(await openapiTS(response.json<OpenAPI3>(), { alphabetize: true }))
}

// `npm run generate:client`
if (process.argv[1] === import.meta.filename) {
  const { buildApp } = await import('../src/app.ts')
  const { loadConfig } = await import('../src/config.ts')
  const folder = await mkdtemp(join(tmpdir(), 'landfall-'))
  try {
    const app = await buildApp(loadConfig({
      DATA_DIR: join(folder, 'data'),
      UPLOADS_DIR: join(folder, 'uploads'),
      LOG_LEVEL: 'silent',
      ...MAIL
    }))
    const types = await generateTypes(app)
    await app.close()
    const isOutdated = types !== await readFile(API_FILE, 'utf8').catch(() => '')
    if (isOutdated) await writeFile(API_FILE, types)
    console.log(`packages/client/src/api.ts ${isOutdated ? 'was updated' : 'is up to date'}`)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
