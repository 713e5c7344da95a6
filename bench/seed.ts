import pg from 'pg'
import { LARGE_BYTES, makeDocument, manyText, SMALL_BYTES, type Page } from './documents.ts'
import type { Write } from './generators/types.ts'
import type { Server } from './servers.ts'

// Test data: some pages created through the API of the service, and very many inserted with SQL.

export const MANY_PAGES = 100_000
const WRITTEN_PAGES = 20
const WRITES = 200

/** The pages that contenders read. */
export interface Seed {
  readonly small: Page
  readonly large: Page
  /** A document as long as `large` after compression. */
  readonly asLargeAsBr: Page
  readonly asLargeAsGzip: Page
  /** Template of the many pages. */
  readonly manyBase: string
  /** Changes of pages that nobody reads. */
  readonly writes: readonly Write[]
}

/** Signs up and creates the pages through the API. */
export async function seedPages (service: Server): Promise<Seed> {
  const url = `http://127.0.0.1:${service.port}`
  const post = async (
    path: string,
    body: string,
    headers: Record<string, string> = {}
  ): Promise<Record<string, string>> => {
    const response = await fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body
    })
    if (response.status !== 201) {
      throw new Error(`POST ${path} was answered with ${response.status}: ${await response.text()}`)
    }
    return await response.json() as Record<string, string>
  }
  const password = 'the password of a benchmark'
  const account = await post(
    '/auth/sign_up',
    JSON.stringify({ user: { email: 'bench@example.com', password, password_confirmation: password } })
  )
  const authorization = `Bearer ${account.access_token}`
  const create = async (text: string): Promise<Page & { id: string }> => {
    const page = await post('/landing_pages', `{"current_data":${text}}`, { authorization })
    return { id: page.id as string, publicId: page.public_id as string, text }
  }
  const large = await create(makeDocument(LARGE_BYTES, 1))
  const compressedBytes = async (encoding: string): Promise<number> => {
    const response = await fetch(`${url}/landing_pages/${large.publicId}`, {
      headers: { 'accept-encoding': encoding }
    })
    await response.arrayBuffer()
    return Number(response.headers.get('content-length'))
  }
  const manyBase = makeDocument(SMALL_BYTES, 5)
  const written: string[] = []
  for (let index = 0; index < WRITTEN_PAGES; index++) written.push((await create(manyBase)).id)
  return {
    small: await create(makeDocument(SMALL_BYTES, 2)),
    large,
    asLargeAsBr: await create(makeDocument(await compressedBytes('br'), 3)),
    asLargeAsGzip: await create(makeDocument(await compressedBytes('gzip'), 4)),
    manyBase,
    writes: Array.from({ length: WRITES }, (_, index) => ({
      path: `/manage/landing_pages/${written[index % WRITTEN_PAGES]}`,
      headers: { Authorization: authorization, 'Content-Type': 'application/json' },
      body: `{"current_data":${manyText(manyBase, index)}}`
    }))
  }
}

/** Inserts the many pages into the account that `seedPages` created. */
export async function seedManyPages (postgresUrl: string, base: string): Promise<void> {
  const client = new pg.Client({ connectionString: postgresUrl })
  await client.connect()
  try {
    await client.query(
      `
      INSERT INTO landing_pages (id, public_id, user_id, current_data, content_hash)
      SELECT gen_random_uuid(), 'bench' || lpad(i::text, 17, '0'), (SELECT min(id) FROM users), document,
        translate(rtrim(encode(sha256(convert_to(document, 'UTF8')), 'base64'), '='), '+/', '-_')
      FROM generate_series(0, $2::int - 1) AS i,
        LATERAL (SELECT replace($1::text, '"serial":"0000000000"', '"serial":"' || lpad(i::text, 10, '0') ||
          '"') AS document) AS made`,
      [manyText(base, 0), MANY_PAGES]
    )
    // Otherwise autovacuum may run during a measurement.
    await client.query('VACUUM (ANALYZE) landing_pages')
    await client.query('CHECKPOINT')
  } finally {
    await client.end()
  }
}
