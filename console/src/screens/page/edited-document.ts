import { exactJson, NotFoundError, type Publication } from '@landfall/client'
import { landfall } from '../../core/service.ts'
import type { SavedDocument } from '../pages/document-text.ts'

/** The editor shows the draft of a page, or the document of a page without a draft. */
export type Kind = 'document' | 'draft'

/** A draft or document as the service has it. */
export interface EditedDocument extends SavedDocument {
  readonly kind: Kind
}

export interface EditedPage {
  readonly edited: EditedDocument
  readonly publication: Publication
}

const { landingPages } = landfall

/** Returns what the editor of a page shows. */
export async function loadEdited (id: string, signal?: AbortSignal): Promise<EditedPage> {
  const options = signal === undefined ? {} : { signal }
  for (;;) {
    const publication = await landingPages.publication(id, options)
    try {
      const { text, etag } = publication.draft === null ? await landingPages.getDocument(id, options)
        : await landingPages.getDraft(id, options)
      return { edited: { kind: publication.draft === null ? 'document' : 'draft', text, etag }, publication }
    } catch (error) {
      // The draft was published or discarded in between. If the page is gone, the next request says so.
      if (publication.draft === null || !(error instanceof NotFoundError)) throw error
    }
  }
}

/** The version that another one is based on, or that stands in its way. */
export interface OtherVersion extends EditedDocument {
  /** When and by whom it was saved; undefined if that isn't known. */
  readonly saved: { readonly at: string, readonly by: string } | undefined
}

/** Returns the document of a page. */
export async function loadDocument (id: string): Promise<OtherVersion> {
  const [{ text, etag }, { items }] = await Promise.all([
    landingPages.getDocument(id),
    landingPages.revisionsPage(id, { limit: 1 })
  ])
  // It may have been replaced in the meantime.
  const revision = items.find((item) => item.etag === etag)
  return {
    kind: 'document',
    text,
    etag,
    saved: revision && { at: revision.created_at, by: revision.author.name }
  }
}

/** Returns what the editor of a page shows, and who saved it. */
export async function loadOther (id: string): Promise<OtherVersion> {
  const { edited, publication: { draft } } = await loadEdited(id)
  if (edited.kind === 'document') return await loadDocument(id)
  const saved = draft?.etag === edited.etag ? { at: draft.updated_at, by: draft.author.name } : undefined
  return { ...edited, saved }
}

/** A page that was unpublished is published or has another document since, so nothing was written. */
export class ChangedSinceError extends Error {
  readonly published: boolean

  constructor (published: boolean) {
    super('The page has changed in the meantime.')
    this.published = published
  }
}

/**
 * Returns the tag of an unpublished page, which publishing it changes, unlike that of its document.
 *
 * @param etag of the document that the page should have
 * @throws {ChangedSinceError}
 */
export async function tagOfUnpublished (id: string, etag: string): Promise<string> {
  const record = await landingPages.get(id)
  // Read after the record: as long as the page has the tag of the record, this is its document.
  const { items: [newest] } = await landingPages.revisionsPage(id, { limit: 1 })
  if (record.published || newest?.etag !== etag) throw new ChangedSinceError(record.published)
  return record.etag
}

interface Change {
  /** What the text becomes. A draft is begun if `base` is the document. */
  readonly kind: Kind
  readonly text: string
  /** A JSON Patch that makes the text of `base`; undefined to send the whole text. */
  readonly patch: string | undefined
  readonly base: Pick<EditedDocument, 'kind' | 'etag'>
}

/**
 * Stores a text. Returns it as the service has it.
 *
 * @throws {PreconditionFailedError} if the service has something else than `base`
 */
export async function store (id: string, { kind, text, patch, base }: Change): Promise<EditedDocument> {
  const [put, patchOf] = kind === 'draft' ? [landingPages.putDraft, landingPages.patchDraft]
    : [landingPages.putDocument, landingPages.patchDocument]
  let ifMatch = base.etag
  const isBegun = kind !== base.kind
  // A draft that a patch begins is based on the document that the person has seen.
  if (patch !== undefined || isBegun) {
    const { etag } = await patchOf(id, exactJson(patch ?? '[]'), { type: 'json-patch', ifMatch })
    if (patch !== undefined) return { kind, text, etag }
    ifMatch = etag
  }
  const { etag } = await put(id, exactJson(text), { ifMatch })
  return { kind, text, etag }
}
