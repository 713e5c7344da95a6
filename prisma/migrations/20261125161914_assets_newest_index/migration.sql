CREATE INDEX CONCURRENTLY "assets_user_id_newest_idx" ON "assets"("user_id", "id" DESC NULLS LAST);
