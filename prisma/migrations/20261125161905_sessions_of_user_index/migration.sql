CREATE INDEX CONCURRENTLY "sessions_user_id_id_idx" ON "sessions"("user_id", "id");
