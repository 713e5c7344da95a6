CREATE INDEX CONCURRENTLY "landing_page_reads_hourly_at_idx" ON "landing_page_reads_hourly"("at");
