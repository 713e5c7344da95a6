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

-- A trigger keeps the version that a write replaces. It also does so for writes of the release before this one,
-- which serves while this migration runs. Such versions have no author: their author is the owner.
CREATE FUNCTION "keep_landing_page_revision"() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  author_type text := OLD.author_type;
  author_name text := OLD.author_name;
  restored_from bigint := OLD.restored_from;
BEGIN
  IF OLD.authored_version IS DISTINCT FROM OLD.version THEN
    author_type := 'user';
    author_name := (SELECT email FROM users WHERE id = OLD.user_id);
    restored_from := NULL;
  END IF;
  INSERT INTO landing_page_revisions (page_id, version, document, content_hash, byte_size, created_at, author_type,
    author_name, restored_from)
  VALUES (OLD.id, OLD.version, OLD.current_data, OLD.content_hash, octet_length(OLD.current_data), OLD.updated_at,
    author_type, author_name, restored_from);
  RETURN NULL;
END $$;

CREATE TRIGGER "landing_page_revision" AFTER UPDATE ON "landing_pages" FOR EACH ROW
WHEN (OLD.version IS DISTINCT FROM NEW.version) EXECUTE FUNCTION "keep_landing_page_revision"();
