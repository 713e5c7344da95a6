-- AlterTable. Constant defaults, so no row is rewritten.
ALTER TABLE "landing_pages" ADD COLUMN     "published" BOOLEAN NOT NULL DEFAULT true,
ADD COLUMN     "deleted_at" TIMESTAMPTZ(3);

-- AlterTable
ALTER TABLE "landing_page_revisions" ADD COLUMN     "published" BOOLEAN NOT NULL DEFAULT true;

-- CreateTable
CREATE TABLE "landing_page_drafts" (
    "page_id" UUID NOT NULL,
    "document" TEXT NOT NULL,
    "content_hash" TEXT NOT NULL,
    "base_version" BIGINT NOT NULL,
    "base_hash" TEXT NOT NULL,
    "used_assets" UUID[],
    "author_type" TEXT NOT NULL,
    "author_name" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "updated_at" TIMESTAMPTZ(3) NOT NULL,

    CONSTRAINT "landing_page_drafts_pkey" PRIMARY KEY ("page_id")
);

-- CreateIndex
CREATE INDEX "landing_page_drafts_used_assets_idx" ON "landing_page_drafts" USING GIN ("used_assets") WHERE used_assets <> '{}';

-- AddForeignKey
ALTER TABLE "landing_page_drafts" ADD CONSTRAINT "landing_page_drafts_page_id_fkey" FOREIGN KEY ("page_id") REFERENCES "landing_pages"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- The pages that use an asset, in the document or in the draft. Those in the trash don't count.
CREATE FUNCTION "pages_using"("asset" UUID, "owner" INTEGER)
RETURNS TABLE ("id" UUID, "public_id" TEXT) LANGUAGE sql STABLE AS $$
  WITH used AS MATERIALIZED (
    SELECT pages.id FROM landing_pages pages WHERE used_assets @> ARRAY["asset"] AND used_assets <> '{}'
    UNION
    SELECT page_id FROM landing_page_drafts WHERE used_assets @> ARRAY["asset"] AND used_assets <> '{}'
  )
  SELECT pages.id, pages.public_id FROM used JOIN landing_pages pages USING (id)
  WHERE user_id = "owner" AND deleted_at IS NULL
$$;

-- As before, with that function.
CREATE OR REPLACE FUNCTION "delete_asset_used_by"("asset" UUID, "owner" INTEGER, "pages" UUID[], "most" INTEGER)
RETURNS TABLE ("key" TEXT, "is_deleted" BOOLEAN) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  SELECT assets.storage_key INTO "key" FROM assets WHERE assets.id = "asset" AND assets.user_id = "owner" FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  "is_deleted" := "pages" = ARRAY(
    SELECT id FROM pages_using("asset", "owner") ORDER BY id DESC LIMIT "most"
  ) AND NOT EXISTS (SELECT FROM unindexed_pages WHERE user_id = "owner");
  IF "is_deleted" THEN
    DELETE FROM assets WHERE assets.id = "asset";
  END IF;
  RETURN NEXT;
END $$;
