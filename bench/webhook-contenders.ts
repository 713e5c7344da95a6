import type { Database } from '../src/infra/postgres/database.ts'
import type { BoundedPool } from '../src/infra/postgres/pool.ts'
import { replacePage } from '../src/modules/landing-pages/write-repository.ts'
import { makeDocument, manyText, SMALL_BYTES } from './documents.ts'
import type { Contender, Fixture } from './query-contenders.ts'

// What the messages of webhooks add to a write.

const WEBHOOKS = 10
const MAX_USERS = 10

/** Returns the ways of a write; the first is the one that the others are compared with. */
export async function webhookContenders (pool: BoundedPool, { pages }: Fixture): Promise<Contender[]> {
  const users = [...new Set(pages.map(({ userId }) => userId))]
  const [without, withTen] = [users.slice(0, MAX_USERS), users.slice(MAX_USERS, 2 * MAX_USERS)]
  await pool.query({
    text: `INSERT INTO webhooks (id, user_id, slot, url, events)
      SELECT gen_random_uuid(), user_id, slot, 'https://example.com/', ARRAY['page.published']
      FROM unnest($1::int[]) user_id, generate_series(1, $2::int) slot`,
    values: [withTen, WEBHOOKS]
  })
  const database = pool as unknown as Database // writes only run statements
  const author = { type: 'user', name: 'user@example.com' } as const
  const document = makeDocument(SMALL_BYTES, 2)
  let turn = 0
  const way = (name: string, owners: readonly number[]): Contender => {
    const own = pages.filter(({ userId }) => owners.includes(userId))
    return {
      statement: 'write of 2 KB, webhooks',
      way: name,
      run: async () => {
        const { id, userId } = own[turn++ % own.length] as Fixture['pages'][number]
        await replacePage(database, { userId, author }, id, manyText(document, turn), null)
      }
    }
  }
  return [way('none', without), way(`${WEBHOOKS} of the account (ours)`, withTen)]
}
