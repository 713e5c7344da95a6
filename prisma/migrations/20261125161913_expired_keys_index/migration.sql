CREATE INDEX CONCURRENTLY "api_keys_expires_at_idx" ON "api_keys"("expires_at");
