-- AlterTable
ALTER TABLE "account_deletions" ADD COLUMN     "claimed_until" TIMESTAMPTZ(3);

-- AlterTable
ALTER TABLE "landing_pages" ADD COLUMN     "indexed_version" BIGINT;

-- CreateTable. The order of the collation "C" is the same on all servers, and no upgrade of a library changes it.
CREATE TABLE "landing_page_summaries" (
    "page_id" UUID NOT NULL,
    "user_id" INTEGER NOT NULL,
    "label" TEXT,
    "search_text" TEXT COLLATE "C" NOT NULL,
    "updated_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "landing_page_summaries_pkey" PRIMARY KEY ("page_id")
);

-- CreateTable
CREATE TABLE "unindexed_pages" (
    "page_id" UUID NOT NULL,
    "user_id" INTEGER NOT NULL,

    CONSTRAINT "unindexed_pages_pkey" PRIMARY KEY ("page_id")
);

-- CreateTable
CREATE TABLE "periodic_tasks" (
    "name" TEXT NOT NULL,
    "started_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "periodic_tasks_pkey" PRIMARY KEY ("name")
);

-- CreateIndex
CREATE INDEX "landing_page_summaries_user_id_page_id_idx" ON "landing_page_summaries"("user_id", "page_id" DESC NULLS LAST);

-- CreateIndex
CREATE INDEX "landing_page_summaries_user_id_updated_at_page_id_idx" ON "landing_page_summaries"("user_id", "updated_at", "page_id");

-- CreateIndex
CREATE INDEX "landing_page_summaries_user_id_search_text_page_id_idx" ON "landing_page_summaries"("user_id", "search_text", "page_id");

-- CreateIndex
CREATE INDEX "unindexed_pages_user_id_page_id_idx" ON "unindexed_pages"("user_id", "page_id");

-- AddForeignKey
ALTER TABLE "landing_page_summaries" ADD CONSTRAINT "landing_page_summaries_page_id_fkey" FOREIGN KEY ("page_id") REFERENCES "landing_pages"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- Text to search and sort by: without case, and from PostgreSQL 13 on without the accents of letters.
DO $do$ BEGIN
  EXECUTE $sql$ CREATE FUNCTION "search_form"("text" TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT lower(regexp_replace(normalize("text", NFKD), '[\u0300-\u036f]', '', 'g')) $$ $sql$;
EXCEPTION WHEN undefined_function OR undefined_column OR syntax_error THEN
  CREATE FUNCTION "search_form"("text" TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT lower("text") $$;
END $do$;

-- This release and later ones set indexed_version with each version. Documents that an older one writes are indexed
-- in the background.
CREATE FUNCTION "note_unindexed_page"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO unindexed_pages (page_id, user_id) VALUES (NEW.id, NEW.user_id) ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;

CREATE TRIGGER "unindexed_page" AFTER INSERT OR UPDATE ON "landing_pages" FOR EACH ROW
WHEN (NEW.indexed_version IS DISTINCT FROM NEW.version)
EXECUTE FUNCTION "note_unindexed_page"();

-- Room in each block for new versions of its rows, so that an update of a count changes no index.
ALTER TABLE "landing_page_reads_hourly" SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE "landing_page_reads_daily" SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
-- Large tables of which a small part is deleted each hour.
ALTER TABLE "landing_page_revisions" SET (autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE "refresh_tokens" SET (autovacuum_vacuum_scale_factor = 0.02);
