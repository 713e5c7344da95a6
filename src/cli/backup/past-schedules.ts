import type { Connection } from '../../infra/postgres/connection.ts'
import { withConnection } from '../../infra/postgres/pool.ts'

// Times of schedules that came after a backup was made. The service makes these changes at its next start.

export interface PastSchedule {
  readonly publicId: string
  readonly change: 'published' | 'unpublished'
  readonly at: Date
}

/** The most that are listed. */
const MAX_LISTED = 100

export async function readPastSchedules (connection: Connection): Promise<PastSchedule[]> {
  return await withConnection(connection, async (database) => {
    const { rows: [table] } = await database
      .query("SELECT to_regclass('landing_page_schedules') IS NOT NULL AS exists")
    if (table.exists !== true) return [] // the backup is of an older release
    const timesSql = (column: string, change: string) =>
      `SELECT page_id, ${column} AS at, '${change}' AS change FROM landing_page_schedules
      WHERE ${column} <= now()`
    const { rows } = await database.query(`
      SELECT public_id AS "publicId", change, at
      FROM (${timesSql('publish_at', 'published')} UNION ALL ${
      timesSql('unpublish_at', 'unpublished')
    }) passed
      JOIN landing_pages ON landing_pages.id = page_id ORDER BY at, page_id LIMIT ${MAX_LISTED}`)
    return rows
  })
}
