-- AlterTable
ALTER TABLE "landing_pages" ADD COLUMN     "author_name" TEXT,
ADD COLUMN     "author_type" TEXT,
ADD COLUMN     "authored_version" BIGINT,
ADD COLUMN     "restored_from" BIGINT;

-- CreateTable
CREATE TABLE "landing_page_revisions" (
    "page_id" UUID NOT NULL,
    "version" BIGINT NOT NULL,
    "document" TEXT NOT NULL,
    "content_hash" TEXT NOT NULL,
    "byte_size" INTEGER NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "author_type" TEXT NOT NULL,
    "author_name" TEXT NOT NULL,
    "restored_from" BIGINT,

    CONSTRAINT "landing_page_revisions_pkey" PRIMARY KEY ("page_id","version")
);

-- CreateTable
CREATE TABLE "landing_page_reads_hourly" (
    "page_id" UUID NOT NULL,
    "at" TIMESTAMPTZ(0) NOT NULL,
    "reads" BIGINT NOT NULL,
    "not_modified" BIGINT NOT NULL,

    CONSTRAINT "landing_page_reads_hourly_pkey" PRIMARY KEY ("page_id","at")
);

-- CreateTable
CREATE TABLE "landing_page_reads_daily" (
    "page_id" UUID NOT NULL,
    "at" TIMESTAMPTZ(0) NOT NULL,
    "reads" BIGINT NOT NULL,
    "not_modified" BIGINT NOT NULL,

    CONSTRAINT "landing_page_reads_daily_pkey" PRIMARY KEY ("page_id","at")
);

-- CreateTable
CREATE TABLE "read_reports" (
    "process_id" UUID NOT NULL,
    "number" BIGINT NOT NULL,
    "reported_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "read_reports_pkey" PRIMARY KEY ("process_id")
);

-- CreateIndex
CREATE INDEX "read_reports_reported_at_idx" ON "read_reports"("reported_at");

-- AddForeignKey
ALTER TABLE "landing_page_revisions" ADD CONSTRAINT "landing_page_revisions_page_id_fkey" FOREIGN KEY ("page_id") REFERENCES "landing_pages"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "landing_page_reads_hourly" ADD CONSTRAINT "landing_page_reads_hourly_page_id_fkey" FOREIGN KEY ("page_id") REFERENCES "landing_pages"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- AddForeignKey
ALTER TABLE "landing_page_reads_daily" ADD CONSTRAINT "landing_page_reads_daily_page_id_fkey" FOREIGN KEY ("page_id") REFERENCES "landing_pages"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- LZ4 compresses documents several times as fast as PostgreSQL's default, where it is available. Stored documents
-- stay as they are.
DO $$ BEGIN
  EXECUTE 'ALTER TABLE "landing_pages" ALTER COLUMN "current_data" SET COMPRESSION lz4';
EXCEPTION WHEN feature_not_supported OR syntax_error THEN
  NULL;
END $$;

-- A document that landing_pages could not compress is not compressed again.
ALTER TABLE "landing_page_revisions" ALTER COLUMN "document" SET STORAGE EXTERNAL;

-- The release before this one serves while this migration runs, and keeps no versions. A trigger does so for its
-- writes, which leave authored_version as it is. Versions without an author are the owner's.
CREATE FUNCTION "keep_landing_page_revision"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO landing_page_revisions (page_id, version, document, content_hash, byte_size, created_at, author_type,
    author_name, restored_from)
  SELECT OLD.id, OLD.version, OLD.current_data, OLD.content_hash, octet_length(OLD.current_data), OLD.updated_at,
    CASE WHEN OLD.authored_version = OLD.version THEN OLD.author_type ELSE 'user' END,
    CASE WHEN OLD.authored_version = OLD.version THEN OLD.author_name ELSE email END,
    CASE WHEN OLD.authored_version = OLD.version THEN OLD.restored_from END
  FROM users WHERE id = OLD.user_id;
  RETURN NULL;
END $$;

CREATE TRIGGER "landing_page_revision" AFTER UPDATE ON "landing_pages" FOR EACH ROW
WHEN (NEW.version <> OLD.version AND NEW.authored_version IS DISTINCT FROM NEW.version)
EXECUTE FUNCTION "keep_landing_page_revision"();
