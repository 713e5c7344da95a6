-- AlterTable
ALTER TABLE "landing_pages" ADD COLUMN     "used_assets" UUID[],
ADD COLUMN     "used_assets_version" BIGINT;

-- Deletes an asset of an owner if exactly these pages use it: the newest ones, at most "most", newest first. Returns no
-- row without the asset. Writes lock the assets that their pages use FOR KEY SHARE. The first statement waits for
-- them, and the next ones see their pages, because each statement of a volatile function has a snapshot of its own.
CREATE FUNCTION "delete_asset_used_by"("asset" UUID, "owner" INTEGER, "pages" UUID[], "most" INTEGER)
RETURNS TABLE ("key" TEXT, "is_deleted" BOOLEAN) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  SELECT assets.storage_key INTO "key" FROM assets WHERE assets.id = "asset" AND assets.user_id = "owner" FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  "is_deleted" := "pages" = ARRAY(
    SELECT id FROM landing_pages WHERE user_id = "owner" AND "asset" = ANY (used_assets) ORDER BY id DESC LIMIT "most"
  ) AND NOT EXISTS (
    SELECT FROM landing_pages WHERE user_id = "owner" AND used_assets_version IS DISTINCT FROM version
  );
  IF "is_deleted" THEN
    DELETE FROM assets WHERE assets.id = "asset";
  END IF;
  RETURN NEXT;
END $$;
