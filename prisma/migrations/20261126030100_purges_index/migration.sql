CREATE INDEX CONCURRENTLY "outbox_purges_idx" ON "outbox"("page_id") WHERE target = '00000000-0000-0000-0000-000000000001';
