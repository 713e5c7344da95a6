-- All pages lack a summary. The service indexes them in the background.
INSERT INTO unindexed_pages (page_id, user_id) SELECT id, user_id FROM landing_pages ON CONFLICT DO NOTHING;

-- As before, but finds the pages by the partial index, and those that aren't indexed in their table. MATERIALIZED: else
-- PostgreSQL may look at all pages of the owner.
CREATE OR REPLACE FUNCTION "delete_asset_used_by"("asset" UUID, "owner" INTEGER, "pages" UUID[], "most" INTEGER)
RETURNS TABLE ("key" TEXT, "is_deleted" BOOLEAN) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  SELECT assets.storage_key INTO "key" FROM assets WHERE assets.id = "asset" AND assets.user_id = "owner" FOR UPDATE;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  "is_deleted" := "pages" = ARRAY(
    WITH used AS MATERIALIZED (
      SELECT id, user_id FROM landing_pages WHERE used_assets @> ARRAY["asset"] AND used_assets <> '{}'
    )
    SELECT id FROM used WHERE user_id = "owner" ORDER BY id DESC LIMIT "most"
  ) AND NOT EXISTS (SELECT FROM unindexed_pages WHERE user_id = "owner");
  IF "is_deleted" THEN
    DELETE FROM assets WHERE assets.id = "asset";
  END IF;
  RETURN NEXT;
END $$;
