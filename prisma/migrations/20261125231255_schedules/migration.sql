-- AlterTable
ALTER TABLE "landing_page_revisions" ADD COLUMN     "scheduled" BOOLEAN NOT NULL DEFAULT false;

-- AlterTable
ALTER TABLE "landing_pages" ADD COLUMN     "scheduled_version" BIGINT;

-- CreateTable
CREATE TABLE "landing_page_schedules" (
    "page_id" UUID NOT NULL,
    "user_id" INTEGER NOT NULL,
    "publish_at" TIMESTAMPTZ(3),
    "unpublish_at" TIMESTAMPTZ(3),
    "author_type" TEXT NOT NULL,
    "author_name" TEXT NOT NULL,

    CONSTRAINT "landing_page_schedules_pkey" PRIMARY KEY ("page_id")
);

-- CreateIndex. Rows without a time stay: they say nothing, and cost nothing.
CREATE INDEX "landing_page_schedules_publish_at_page_id_idx" ON "landing_page_schedules"("publish_at", "page_id") WHERE publish_at IS NOT NULL;

-- CreateIndex
CREATE INDEX "landing_page_schedules_unpublish_at_page_id_idx" ON "landing_page_schedules"("unpublish_at", "page_id") WHERE unpublish_at IS NOT NULL;

-- CreateIndex
CREATE INDEX "landing_page_schedules_user_id_idx" ON "landing_page_schedules"("user_id") WHERE publish_at IS NOT NULL OR unpublish_at IS NOT NULL;

-- AddForeignKey
ALTER TABLE "landing_page_schedules" ADD CONSTRAINT "landing_page_schedules_page_id_fkey" FOREIGN KEY ("page_id") REFERENCES "landing_pages"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- The next functions are called by statements that have locked the page. A query of a volatile function sees
-- what others have committed while the statement waited for the lock.

-- When the draft is published. Until then, it can't be changed.
CREATE FUNCTION "scheduled_publication"("page" UUID) RETURNS TIMESTAMPTZ LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN (SELECT publish_at FROM landing_page_schedules WHERE page_id = "page");
END $$;

-- Whether a time has come. A page is never unpublished before an earlier publication. The lock lets a deletion of
-- the schedule wait.
CREATE FUNCTION "is_schedule_due"("page" UUID, "publishes" BOOLEAN) RETURNS BOOLEAN LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM FROM landing_page_schedules
    WHERE page_id = "page" AND CASE WHEN "publishes" THEN publish_at <= now()
      ELSE unpublish_at <= now() AND publish_at IS NULL END
    FOR UPDATE;
  RETURN FOUND;
END $$;

CREATE FUNCTION "end_schedule"("page" UUID, "publication" BOOLEAN, "unpublication" BOOLEAN) RETURNS VOID
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  UPDATE landing_page_schedules
    SET publish_at = CASE WHEN NOT "publication" THEN publish_at END,
      unpublish_at = CASE WHEN NOT "unpublication" THEN unpublish_at END
    WHERE page_id = "page" AND ("publication" AND publish_at IS NOT NULL OR "unpublication" AND unpublish_at IS NOT NULL);
END $$;

-- Sets the schedule of a page that has still the version and the draft that were read. The lock on the user lets
-- one schedule of an account be set at a time, so that there are no more than "most".
CREATE FUNCTION "set_schedule"("page" UUID, "owner" INTEGER, "read_version" BIGINT, "read_draft" TEXT,
  "publication" TIMESTAMPTZ, "unpublication" TIMESTAMPTZ, "type" TEXT, "name" TEXT, "most" INTEGER) RETURNS TEXT
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM FROM users WHERE id = "owner" FOR NO KEY UPDATE;
  PERFORM FROM landing_pages
    WHERE id = "page" AND user_id = "owner" AND deleted_at IS NULL AND version = "read_version" FOR NO KEY UPDATE;
  IF NOT FOUND OR "read_draft" IS DISTINCT FROM (SELECT content_hash FROM landing_page_drafts WHERE page_id = "page") THEN
    RETURN 'changed';
  END IF;
  IF least("publication", "unpublication") <= now() THEN
    RETURN 'past';
  END IF;
  IF greatest("publication", "unpublication") > now() + interval '5 years' THEN
    RETURN 'distant';
  END IF;
  IF (
    SELECT count(*) FROM landing_page_schedules
    WHERE user_id = "owner" AND page_id <> "page" AND (publish_at IS NOT NULL OR unpublish_at IS NOT NULL)
  ) >= "most" THEN
    RETURN 'too many';
  END IF;
  INSERT INTO landing_page_schedules (page_id, user_id, publish_at, unpublish_at, author_type, author_name)
    VALUES ("page", "owner", "publication", "unpublication", "type", "name")
    ON CONFLICT (page_id) DO UPDATE SET publish_at = EXCLUDED.publish_at, unpublish_at = EXCLUDED.unpublish_at,
      author_type = EXCLUDED.author_type, author_name = EXCLUDED.author_name;
  RETURN 'set';
END $$;
