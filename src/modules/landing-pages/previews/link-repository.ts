import type { Database } from '../../../infra/postgres/database.ts'
import type { PreviewLink, PrismaClient } from '../../../infra/postgres/generated/prisma/client.ts'
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

/**
 * Stores a new link. A trigger of the table counts the links of the page, one creation at a time. It also
 * waits for a change of the password, after which the caller may have no access any more.
 *
 * @param link `expiresIn` is in seconds
 * @returns undefined when the page has MAX_LINKS links, or has been removed
 */
export async function createLink (
  database: Database,
  { userId, id: pageId }: OwnPage,
  { token, name, expiresIn }: {
    readonly name: string | null
    readonly token: string
    readonly expiresIn: number
  }
): Promise<PreviewLinkRow | undefined> {
  const createdAt = await database.now()
  const expiresAt = new Date(createdAt.getTime() + expiresIn * 1000)
  const link = { id: uuidv7(), pageId, userId, name, tokenHash: hashToken(token), createdAt, expiresAt }
  return (await database.previewLink.createManyAndReturn({ data: [link], select: SHOWN }))[0]
}

/** A condition of Prisma: the links of an owner's page that is not in the trash. */
const linksOf = ({ userId, id: pageId }: OwnPage) => ({ pageId, page: { userId, deletedAt: null } })

/** Lists the links of a page that have not expired, newest first, and one more if there is a next page. */
export const listLinks = async (
  database: Database,
  page: OwnPage,
  { before, limit }: Page
): Promise<PreviewLinkRow[]> =>
  await database.previewLink.findMany({
    where: { ...linksOf(page), expiresAt: { gt: await database.now() }, id: { lt: before } },
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
  /** When the request asked. */
  readonly usedAt: Date
}

/** Finds the link of a page by its token. @returns null when it is another page's, gone or expired */
export async function findLink (
  database: Database,
  publicId: string,
  token: string
): Promise<UsedLink | null> {
  const usedAt = await database.now()
  const link = await database.previewLink.findFirst({
    where: { tokenHash: hashToken(token), expiresAt: { gt: usedAt }, page: { publicId } },
    select: { id: true, pageId: true, userId: true, lastUsedAt: true, page: { select: { deletedAt: true } } }
  })
  return link && { ...link, usedAt }
}

/** Notes the use of a link, once a minute. */
export async function recordUse (
  database: PrismaClient,
  { id, lastUsedAt, usedAt }: UsedLink
): Promise<void> {
  const minute = new Date(Math.floor(usedAt.getTime() / MINUTE_MS) * MINUTE_MS)
  if (lastUsedAt !== null && lastUsedAt >= minute) return
  await database.previewLink.updateMany({ where: { id }, data: { lastUsedAt: minute } })
}
