import pg from 'pg'
import { LARGE_BYTES, makeDocument, manyText, SMALL_BYTES, type Page } from './documents.ts'
import type { Server } from './servers.ts'

// What is read: pages made through the service's own API, and very many of them by SQL.

export const MANY_PAGES = 100_000

/** The pages that contenders read. */
export interface Seed {
  readonly small: Page
  readonly large: Page
  /** As large as `large` is compressed by the service. */
  readonly asLargeAsBr: Page
  readonly asLargeAsGzip: Page
  /** The document that the many pages are made from. */
  readonly manyBase: string
}

/** Signs up and creates the pages. */
export async function seedPages (service: Server): Promise<Seed> {
  const url = `http://127.0.0.1:${service.port}`
  const post = async (path: string, body: string, headers: Record<string, string> = {}): Promise<Record<string, string>> => {
    const response = await fetch(url + path, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body })
    if (response.status !== 201) throw new Error(`POST ${path} was answered with ${response.status}: ${await response.text()}`)
    return await response.json() as Record<string, string>
  }
  const password = 'the password of a benchmark'
  const account = await post('/auth/sign_up', JSON.stringify({ user: { email: 'bench@example.com', password, password_confirmation: password } }))
  const create = async (text: string): Promise<Page> => {
    const page = await post('/landing_pages', `{"current_data":${text}}`, { authorization: `Bearer ${account.access_token}` })
    return { publicId: page.public_id as string, text }
  }
  const large = await create(makeDocument(LARGE_BYTES, 1))
  const compressedBytes = async (encoding: string): Promise<number> => {
    const response = await fetch(`${url}/landing_pages/${large.publicId}`, { headers: { 'accept-encoding': encoding } })
    await response.arrayBuffer()
    return Number(response.headers.get('content-length'))
  }
  return {
    small: await create(makeDocument(SMALL_BYTES, 2)),
    large,
    asLargeAsBr: await create(makeDocument(await compressedBytes('br'), 3)),
    asLargeAsGzip: await create(makeDocument(await compressedBytes('gzip'), 4)),
    manyBase: makeDocument(SMALL_BYTES, 5)
  }
}

/** Adds the many pages to the account that `seedPages` made. */
export async function seedManyPages (postgresUrl: string, base: string): Promise<void> {
  const client = new pg.Client({ connectionString: postgresUrl })
  await client.connect()
  try {
    await client.query(`
      INSERT INTO landing_pages (id, public_id, user_id, current_data, content_hash)
      SELECT gen_random_uuid(), 'bench' || lpad(i::text, 17, '0'), (SELECT min(id) FROM users), document,
        translate(rtrim(encode(sha256(convert_to(document, 'UTF8')), 'base64'), '='), '+/', '-_')
      FROM generate_series(0, $2::int - 1) AS i,
        LATERAL (SELECT replace($1::text, '"serial":"0000000000"', '"serial":"' || lpad(i::text, 10, '0') || '"') AS document) AS made`,
    [manyText(base, 0), MANY_PAGES])
    // Otherwise the server does it while somebody is measured.
    await client.query('VACUUM (ANALYZE) landing_pages')
    await client.query('CHECKPOINT')
  } finally {
    await client.end()
  }
}
