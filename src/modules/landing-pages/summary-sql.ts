import { findLabel, START_LENGTH } from './label.ts'

// What lists of pages search and sort by (landing_page_summaries). Each write of a page keeps it.

/** Characters of the text to search. An entry of an index may have 2,700 bytes. */
const MAX_SEARCH_LENGTH = 300

/** Returns the label that is stored. PostgreSQL's text has no NUL. */
export const labelOf = (document: string): string | null =>
  findLabel(document.slice(0, START_LENGTH))?.replaceAll('\0', '\uFFFD') ?? null

interface Columns {
  readonly pageId: string
  readonly publicId: string
  readonly updatedAt: string
}

/**
 * A part of a WITH that stores the summary of a page with `:label`.
 *
 * @param page the part of the WITH, or the table, that has the page's columns
 */
export const summarySql = (page: string, { pageId, publicId, updatedAt }: Columns): string =>
  `summarized AS (
    INSERT INTO landing_page_summaries AS stored (page_id, user_id, label, search_text, updated_at)
    SELECT ${pageId}, :userId::integer, :label::text,
      left(search_form(coalesce(:label::text, '')), ${MAX_SEARCH_LENGTH}) || chr(10) || lower(${publicId}) ||
        coalesce(chr(10) || key, ''),
      ${updatedAt}
    FROM ${page}
    ON CONFLICT (page_id) DO UPDATE SET label = EXCLUDED.label, search_text = EXCLUDED.search_text,
      updated_at = EXCLUDED.updated_at
    WHERE (stored.label, stored.updated_at) IS DISTINCT FROM (EXCLUDED.label, EXCLUDED.updated_at)
  )`
