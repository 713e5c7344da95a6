CREATE INDEX CONCURRENTLY "assets_user_id_byte_size_id_idx" ON "assets"("user_id", "byte_size", "id");
