import type { Database } from '../../../infra/postgres/database.ts'
import type { PreviewLink, PrismaClient } from '../../../infra/postgres/generated/prisma/client.ts'
import { statement } from '../../../infra/postgres/statement.ts'
import { hashToken, uuidv7 } from '../../../infra/system/identifiers.ts'
import type { Page } from '../../../http/pagination.ts'
import type { OwnPage } from '../manage/write-checks.ts'

/** The most links of a page that have not expired. The trigger of the table has the same number. */
export const MAX_LINKS = 20
const MINUTE_MS = 60_000

/** The prefix of tokens. API keys have another one, so that neither passes for the other. */
export const TOKEN_PREFIX = 'lfp_'

/** A link as the owner of the page sees it. */
export type PreviewLinkRow = Pick<PreviewLink, keyof typeof SHOWN>

const SHOWN = { id: true, name: true, createdAt: true, expiresAt: true, lastUsedAt: true } as const

// Prisma can't lock. The lock on the page lets one link be created at a time; a trigger counts the links,
// because this statement can't see those created while it waited. The lock on the user waits for a change of
// the password, after which the caller may have no access any more.
const CREATE = statement<PreviewLinkRow | { [Field in keyof PreviewLinkRow]: null }>(`
  WITH page AS (
    SELECT pages.id, user_id FROM landing_pages pages JOIN users ON users.id = user_id
    WHERE pages.id = :pageId::uuid AND user_id = :userId::integer AND deleted_at IS NULL
    FOR SHARE OF users FOR NO KEY UPDATE OF pages
  ), created AS (
    INSERT INTO preview_links (id, page_id, user_id, name, token_hash, expires_at)
    SELECT :id::uuid, page.id, user_id, :name, :tokenHash, now() + :expiresIn::integer * interval '1 second'
    FROM page
    RETURNING id, name, created_at, expires_at, last_used_at
  )
  SELECT created.id, name, created_at AS "createdAt", expires_at AS "expiresAt", last_used_at AS "lastUsedAt"
  FROM page LEFT JOIN created ON true`)

/**
 * Stores a new link.
 *
 * @param link `expiresIn` is in seconds
 * @returns `too many` when the page has MAX_LINKS links; undefined when there is no such page
 */
export async function createLink (
  database: Database,
  { userId, id: pageId }: OwnPage,
  { token, ...link }: { readonly name: string | null, readonly token: string, readonly expiresIn: number }
): Promise<PreviewLinkRow | 'too many' | undefined> {
  const values = { id: uuidv7(), pageId, userId, tokenHash: hashToken(token), ...link }
  const [created] = await database.run(CREATE, values)
  return created?.id === null ? 'too many' : created
}

/** A condition of Prisma: the links of an owner's page that is not in the trash. */
const linksOf = ({ userId, id: pageId }: OwnPage) => ({ pageId, page: { userId, deletedAt: null } })

/** Lists the links of a page that have not expired, newest first, and one more if there is a next page. */
export const listLinks = async (
  database: PrismaClient,
  page: OwnPage,
  { before, limit }: Page
): Promise<PreviewLinkRow[]> =>
  await database.previewLink.findMany({
    where: { ...linksOf(page), expiresAt: { gt: new Date() }, id: { lt: before } },
    orderBy: { id: 'desc' },
    take: limit + 1,
    select: SHOWN
  })

export const hasLink = async (database: PrismaClient, page: OwnPage, id: string): Promise<boolean> =>
  await database.previewLink.count({ where: { id, ...linksOf(page) } }) > 0

/** Deletes a link. @returns false when there is no such link */
export const deleteLink = async (database: PrismaClient, page: OwnPage, id: string): Promise<boolean> =>
  (await database.previewLink.deleteMany({ where: { id, ...linksOf(page) } })).count === 1

/** The link of a request for a preview. */
export type UsedLink = Pick<PreviewLink, 'id' | 'pageId' | 'userId' | 'lastUsedAt'> & {
  readonly page: { readonly deletedAt: Date | null }
}

/** Finds the link of a page by its token. @returns null when it is another page's, gone or expired */
export const findLink = async (
  database: PrismaClient,
  publicId: string,
  token: string
): Promise<UsedLink | null> =>
  await database.previewLink.findFirst({
    where: { tokenHash: hashToken(token), expiresAt: { gt: new Date() }, page: { publicId } },
    select: { id: true, pageId: true, userId: true, lastUsedAt: true, page: { select: { deletedAt: true } } }
  })

/** Notes the use of a link, once a minute. */
export async function recordUse (database: PrismaClient, { id, lastUsedAt }: UsedLink): Promise<void> {
  const minute = new Date(Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS)
  if (lastUsedAt !== null && lastUsedAt >= minute) return
  const isEarlier = { OR: [{ lastUsedAt: null }, { lastUsedAt: { lt: minute } }] }
  await database.previewLink.updateMany({ where: { id, ...isEarlier }, data: { lastUsedAt: minute } })
}
