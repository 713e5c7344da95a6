import { readFileSync } from 'node:fs'
import t from 'tap'
import { API_FILE, generateTypes, MAIL } from '../../../scripts/generate-client.ts'
import { isPublic } from '../../../packages/client/src/transport.ts'
import { buildTestApp, testSettings } from '../../helpers/app.ts'

const app = await buildTestApp(t, { ...MAIL, ...await testSettings(t) })

t.test('api.ts is up to date with the OpenAPI document', async (t) => {
  t.ok(
    await generateTypes(app) === readFileSync(API_FILE, 'utf8'),
    'packages/client/src/api.ts is out of date: run "npm run generate:client" and commit it'
  )
})

t.test('the access token is sent to exactly those routes that require one', async (t) => {
  const { paths } = (await app.inject('/openapi.json')).json<
    { paths: Record<string, Record<string, { security?: object[] }>> }
  >()
  for (const [path, operations] of Object.entries(paths)) {
    for (const [method, { security = [] }] of Object.entries(operations)) {
      if (method === 'options') continue // only browsers send preflight requests
      const example = path.replaceAll(/\{\w+\}/g, 'x')
      t.equal(
        isPublic(method.toUpperCase(), `${example}?limit=1`),
        !security.some((scheme) => 'bearer' in scheme),
        `${method} ${path}`
      )
    }
  }
})
