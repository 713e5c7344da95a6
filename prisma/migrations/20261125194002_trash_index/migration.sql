CREATE INDEX CONCURRENTLY "landing_pages_trash_idx" ON "landing_pages"("user_id", "deleted_at", "id") WHERE deleted_at IS NOT NULL;
