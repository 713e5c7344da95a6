import type { LandingPage as PageRow, PrismaClient } from '../../infra/postgres/generated/prisma/client.ts'
import { statement, type StatementRunner } from '../../infra/postgres/statement.ts'
import type { Caller } from '../accounts/index.ts'
import type { PageState } from './etag.ts'

// Pages, and what finds them. write-repository.ts writes them, trash-repository.ts removes them.

/** A Landing Page as it is stored. `currentData` is the document's text, byte for byte as it was sent. */
export type LandingPage = Readonly<
  Pick<
    PageRow,
    | 'id'
    | 'publicId'
    | 'currentData'
    | 'contentHash'
    | 'version'
    | 'published'
    | 'key'
    | 'keyChangedAt'
    | 'createdAt'
    | 'updatedAt'
  >
>

/** What the public read needs of a page. */
export type PublicPage = Pick<
  LandingPage,
  'publicId' | 'currentData' | 'contentHash' | 'version' | 'published' | 'updatedAt'
>

/** A page for the public read, without its document if that is too large, or if readers don't get it. */
export interface FoundPage extends Omit<PublicPage, 'currentData'> {
  readonly currentData: string | null
}

/** The owner of a page, and who is named as the author of the new version. */
export interface Writer extends Pick<Caller, 'userId' | 'author'> {
  /** Whether a schedule writes. Then nothing happens before its time, and nothing twice. */
  readonly isSchedule?: boolean
}

/** A version of a page that was read, which a write replaces; null if it replaces any version. */
export type ReadVersion = Pick<LandingPage, 'version' | 'keyChangedAt'> | null

/** A condition: the page is still as it was read. */
export const IS_AS_READ = `(:readVersion::bigint IS NULL
    OR version = :readVersion AND key_changed_at IS NOT DISTINCT FROM :readKeyChangedAt::timestamptz)`
/** The parameters of IS_AS_READ. */
export const readValues = (read: ReadVersion) => ({
  readVersion: read?.version ?? null,
  readKeyChangedAt: read?.keyChangedAt ?? null
})

const IS_PUBLIC = 'published AND deleted_at IS NULL'

/** Hot. PostgreSQL knows the size of a document without reading it, so it reads none that is too large. */
const FIND_PUBLIC = statement<FoundPage>(`
  SELECT public_id AS "publicId",
    CASE WHEN ${IS_PUBLIC} AND octet_length(current_data) <= :maxBytes::integer THEN current_data END
      AS "currentData",
    content_hash AS "contentHash", version, ${IS_PUBLIC} AS published, updated_at AS "updatedAt"
  FROM landing_pages WHERE public_id = ANY (:publicIds::text[])
    AND NOT EXISTS (SELECT FROM account_deletions deletion WHERE deletion.user_id = landing_pages.user_id)`)

export const findPage = async (
  database: PrismaClient,
  userId: number,
  id: string
): Promise<LandingPage | null> =>
  await database.landingPage.findFirst({ where: { id, userId, deletedAt: null }, omit: { usedAssets: true } })

/** Hot: each write with preconditions runs it first. */
const FIND_STATE = statement<PageState>(`
  SELECT content_hash AS "contentHash", version, updated_at AS "updatedAt", key_changed_at AS "keyChangedAt"
  FROM landing_pages
  WHERE id = :id::uuid AND user_id = :userId::integer AND (deleted_at IS NOT NULL) = :isDeleted::boolean`)

/** Finds what the tags of a page are made of. @param isDeleted whether the page has to be in the trash */
export const findPageState = async (
  database: StatementRunner,
  userId: number,
  id: string,
  isDeleted: boolean
): Promise<PageState | null> => (await database.run(FIND_STATE, { userId, id, isDeleted }))[0] ?? null

/** Finds the page with a key, also in the trash. */
export const findPageByKey = async (
  database: PrismaClient,
  userId: number,
  key: string
): Promise<LandingPage & Pick<PageRow, 'deletedAt'> | null> =>
  await database.landingPage.findFirst({ where: { userId, key }, omit: { usedAssets: true } })

/**
 * Finds pages of any owners, for the public read. They are in no order; unknown ids are left out.
 *
 * @param maxBytes `currentData` of a larger document is null
 */
export const findPublicPages = async (
  database: StatementRunner,
  publicIds: readonly string[],
  maxBytes: number
): Promise<FoundPage[]> => await database.run(FIND_PUBLIC, { publicIds, maxBytes })

/** Lists pages of a user for the deletion of the account, the oldest first, those after an id. */
export const listPagesOf = async (
  database: PrismaClient,
  userId: number,
  after: string,
  limit: number
): Promise<Pick<LandingPage, 'id' | 'publicId'>[]> =>
  await database.landingPage.findMany({
    where: { userId, id: { gt: after } },
    orderBy: [{ userId: 'asc' }, { id: 'asc' }], // so that PostgreSQL uses the index of both
    take: limit,
    select: { id: true, publicId: true }
  })
