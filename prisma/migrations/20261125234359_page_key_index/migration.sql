CREATE UNIQUE INDEX CONCURRENTLY "landing_pages_user_id_key_idx" ON "landing_pages"("user_id", "key") WHERE key IS NOT NULL;
