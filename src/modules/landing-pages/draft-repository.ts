import type { Database } from '../../infra/postgres/database.ts'
import type { LandingPageDraft, PrismaClient } from '../../infra/postgres/generated/prisma/client.ts'
import { statement } from '../../infra/postgres/statement.ts'
import { contentHash } from '../../http/conditional-requests.ts'
import type { Author } from '../accounts/index.ts'
import type { LandingPage, Writer } from './landing-page-repository.ts'
import { findKeysOf, REFERENCED_ASSETS } from './references/reference-repository.ts'

// A page has at most one draft: a document that no reader gets until it is published.

export type Draft = Readonly<Omit<LandingPageDraft, 'usedAssets' | 'authorType'>> & {
  readonly authorType: Author['type']
}

/**
 * Begins or replaces a draft, or discards it if there is no new document. In SQL, because Prisma can't lock
 * the page and the assets that a document names. All statements lock a page before its draft, so that they
 * can't deadlock.
 */
const WRITE = statement<{ updatedAt: Date }>(`
  WITH locked AS ( -- waits until a schedule that is being set is committed
    SELECT id FROM landing_pages WHERE id = :pageId::uuid AND user_id = :userId::integer AND deleted_at IS NULL
    FOR SHARE
  ), page AS MATERIALIZED (
    SELECT id FROM locked WHERE scheduled_publication(id) IS NULL
  ), used AS MATERIALIZED (${REFERENCED_ASSETS}), begun AS (
    INSERT INTO landing_page_drafts (page_id, document, content_hash, base_version, base_hash, used_assets,
      author_type, author_name, created_at, updated_at)
    SELECT page.id, :document, :contentHash, :baseVersion::bigint, :baseHash, used.ids, :authorType,
      :authorName, :now::timestamptz, :now::timestamptz
    FROM page, used WHERE :replacedHash::text IS NULL -- no draft was read
    ON CONFLICT DO NOTHING -- one was begun meanwhile
    RETURNING updated_at
  ), replaced AS (
    UPDATE landing_page_drafts draft
    SET document = :document, content_hash = :contentHash, used_assets = used.ids, author_type = :authorType,
      author_name = :authorName, updated_at = GREATEST(draft.updated_at, :now::timestamptz)
    FROM page, used
    WHERE page_id = page.id AND content_hash = :replacedHash::text AND :document::text IS NOT NULL
    RETURNING draft.updated_at
  ), discarded AS (
    DELETE FROM landing_page_drafts draft USING page
    WHERE page_id = page.id AND content_hash = :replacedHash::text AND :document::text IS NULL
    RETURNING draft.updated_at
  )
  SELECT updated_at AS "updatedAt" FROM begun UNION ALL SELECT updated_at FROM replaced
  UNION ALL SELECT updated_at FROM discarded`)

export const findDraft = async (database: PrismaClient, pageId: string): Promise<Draft | null> =>
  await database.landingPageDraft.findUnique({ where: { pageId }, omit: { usedAssets: true } }) as
    | Draft
    | null

/**
 * Writes the draft of a page in place of the one that was read.
 *
 * @param page the page as it was read: a new draft begins from its version
 * @param read the draft as it was read; null if there was none
 * @returns null if the draft or the page isn't there any more, or has changed, or the draft is scheduled
 */
export async function writeDraft (
  database: Database,
  { userId, author }: Writer,
  page: LandingPage,
  read: Draft | null,
  document: string
): Promise<Draft | null> {
  const { id: pageId, version, contentHash: pageHash } = page
  const draft = {
    pageId,
    document,
    contentHash: contentHash(document),
    baseVersion: read?.baseVersion ?? version,
    baseHash: read?.baseHash ?? pageHash,
    authorType: author.type,
    authorName: author.name
  }
  const now = new Date()
  const [written] = await database.run(WRITE, {
    ...draft,
    userId,
    replacedHash: read?.contentHash ?? null,
    now,
    keys: await findKeysOf(database, userId, document)
  })
  if (written === undefined) return null
  return { ...draft, createdAt: read?.createdAt ?? now, updatedAt: written.updatedAt }
}

/** Discards a draft that was read. @returns whether it was still the same one, and not scheduled */
export async function discardDraft (database: Database, userId: number, draft: Draft): Promise<boolean> {
  const values = {
    ...draft,
    userId,
    document: null,
    replacedHash: draft.contentHash,
    now: new Date(),
    keys: []
  }
  return (await database.run(WRITE, values)).length > 0
}

/** Whether any version since the draft was begun had other bytes. */
export async function isOutdated (
  database: PrismaClient,
  page: LandingPage,
  { baseVersion, baseHash }: Draft
): Promise<boolean> {
  if (page.contentHash !== baseHash) return true
  if (page.version === baseVersion) return false
  // Earlier versions with other bytes count, and those that have been removed since.
  const unchanged = await database.landingPageRevision.count({
    where: { pageId: page.id, version: { gte: baseVersion, lt: page.version }, contentHash: baseHash }
  })
  return BigInt(unchanged) < page.version - baseVersion
}
