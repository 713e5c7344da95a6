CREATE INDEX CONCURRENTLY "landing_pages_used_assets_idx" ON "landing_pages" USING GIN ("used_assets");
