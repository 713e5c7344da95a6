CREATE INDEX CONCURRENTLY "landing_pages_deleted_at_idx" ON "landing_pages"("deleted_at") WHERE deleted_at IS NOT NULL;
