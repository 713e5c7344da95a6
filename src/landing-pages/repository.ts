import type { PrismaClient } from '../generated/prisma/client.ts'
import { randomPublicId } from '../identifiers.ts'
import type { Page } from '../pagination.ts'
import { contentHash } from './document.ts'
import type { TagList } from './etag.ts'

/** A Landing Page as it is stored. */
export interface LandingPage {
  readonly id: string
  readonly publicId: string
  /** The document's text, as it was sent. */
  readonly currentData: string
  readonly contentHash: string
  readonly version: bigint
  readonly createdAt: Date
  readonly updatedAt: Date
}

const FIELDS = { id: true, publicId: true, currentData: true, contentHash: true, version: true, createdAt: true, updatedAt: true } as const

/** A list answers with whole documents; past this many bytes of them it ends early, with a link to the rest. */
const MAX_LIST_BYTES = 2 * 1024 * 1024

/** The hashes that If-Match restricts a write to; undefined when any version of the page will do. */
const requiredHashes = (ifMatch: TagList | undefined): string[] | undefined =>
  ifMatch === undefined || ifMatch === '*' ? undefined : [...ifMatch]

/** Landing Pages in PostgreSQL. The owner is part of every statement. */
export class LandingPageRepository {
  readonly #database: PrismaClient

  constructor (database: PrismaClient) {
    this.#database = database
  }

  async create (userId: number, document: string): Promise<LandingPage> {
    const now = new Date()
    return await this.#database.landingPage.create({
      data: { userId, publicId: randomPublicId(), currentData: document, contentHash: contentHash(document), createdAt: now, updatedAt: now },
      select: FIELDS
    })
  }

  async find (userId: number, id: string): Promise<LandingPage | null> {
    return await this.#database.landingPage.findFirst({ where: { id, userId }, select: FIELDS })
  }

  /**
   * Newest first, and fewer than asked for when the documents are large. `nextBefore` is where the next list goes on,
   * undefined when nothing older is left.
   */
  async list (userId: number, page: Page): Promise<{ pages: LandingPage[], nextBefore: string | undefined }> {
    const { before = null, limit } = page
    const sizes = await this.#database.$queryRaw<{ id: string, bytes: number }[]>`
      SELECT id, octet_length(current_data) AS bytes FROM landing_pages
      WHERE user_id = ${userId} AND (${before}::uuid IS NULL OR id < ${before}::uuid)
      ORDER BY id DESC LIMIT ${limit + 1}::integer`
    let bytes = 0
    const fitting = sizes.slice(0, limit).filter((size, index) => (bytes += size.bytes) <= MAX_LIST_BYTES || index === 0)
    const pages = await this.#database.landingPage.findMany({
      where: { userId, id: { in: fitting.map(({ id }) => id) } },
      orderBy: { id: 'desc' },
      select: FIELDS
    })
    return { pages, nextBefore: fitting.length < sizes.length ? fitting.at(-1)?.id : undefined }
  }

  /** Replaces the document. Null when there is no such page, or none of the versions that If-Match names. */
  async replace (userId: number, id: string, document: string, ifMatch: TagList | undefined): Promise<LandingPage | null> {
    const hashes = requiredHashes(ifMatch)
    const rows = await this.#database.landingPage.updateManyAndReturn({
      where: { id, userId, ...(hashes === undefined ? {} : { contentHash: { in: hashes } }) },
      data: { currentData: document, contentHash: contentHash(document), version: { increment: 1 }, updatedAt: new Date() },
      select: FIELDS
    })
    return rows[0] ?? null
  }

  /** Deletes the page and gives its public id; null as with replace(). */
  async delete (userId: number, id: string, ifMatch: TagList | undefined): Promise<string | null> {
    const hashes = requiredHashes(ifMatch) ?? null
    const rows = await this.#database.$queryRaw<{ publicId: string }[]>`
      DELETE FROM landing_pages
      WHERE id = ${id}::uuid AND user_id = ${userId} AND (${hashes}::text[] IS NULL OR content_hash = ANY (${hashes}::text[]))
      RETURNING public_id AS "publicId"`
    return rows[0]?.publicId ?? null
  }

  /** Any owner's page, for the public read. */
  async findPublic (publicId: string): Promise<Pick<LandingPage, 'currentData' | 'contentHash' | 'version' | 'updatedAt'> | null> {
    return await this.#database.landingPage.findUnique({
      where: { publicId },
      select: { currentData: true, contentHash: true, version: true, updatedAt: true }
    })
  }
}
