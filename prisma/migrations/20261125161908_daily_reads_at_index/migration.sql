CREATE INDEX CONCURRENTLY "landing_page_reads_daily_at_idx" ON "landing_page_reads_daily"("at");
