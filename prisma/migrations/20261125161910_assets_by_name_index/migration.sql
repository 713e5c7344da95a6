CREATE INDEX CONCURRENTLY "assets_user_id_filename_idx" ON "assets"("user_id", "search_form"("filename") COLLATE "C", "id");
