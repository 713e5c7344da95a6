CREATE INDEX CONCURRENTLY "sessions_revoked_at_idx" ON "sessions"("revoked_at");
