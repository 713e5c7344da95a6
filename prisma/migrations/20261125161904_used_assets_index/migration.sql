-- Only pages that use assets: a write of another page doesn't touch the index. Without fastupdate, a lookup never reads a
-- list of pending entries.
CREATE INDEX CONCURRENTLY "landing_pages_used_assets_idx" ON "landing_pages" USING GIN ("used_assets")
WITH (fastupdate = off) WHERE "used_assets" <> '{}';
