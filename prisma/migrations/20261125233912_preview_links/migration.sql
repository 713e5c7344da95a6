-- CreateTable
CREATE TABLE "preview_links" (
    "id" UUID NOT NULL,
    "page_id" UUID NOT NULL,
    "user_id" INTEGER NOT NULL,
    "name" TEXT,
    "token_hash" BYTEA NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "last_used_at" TIMESTAMPTZ(0),

    CONSTRAINT "preview_links_pkey" PRIMARY KEY ("id")
);

-- CreateIndex
CREATE UNIQUE INDEX "preview_links_token_hash_key" ON "preview_links"("token_hash");

-- CreateIndex
CREATE INDEX "preview_links_page_id_id_idx" ON "preview_links"("page_id", "id");

-- CreateIndex
CREATE INDEX "preview_links_user_id_idx" ON "preview_links"("user_id");

-- CreateIndex
CREATE INDEX "preview_links_expires_at_idx" ON "preview_links"("expires_at");

-- AddForeignKey
ALTER TABLE "preview_links" ADD CONSTRAINT "preview_links_page_id_fkey" FOREIGN KEY ("page_id") REFERENCES "landing_pages"("id") ON DELETE CASCADE ON UPDATE CASCADE;

-- A link too many isn't inserted. The query of a trigger sees the links that other transactions have committed
-- since its statement began.
CREATE FUNCTION "limit_preview_links"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT count(*) FROM preview_links WHERE page_id = NEW.page_id AND expires_at > now()) >= 20 THEN
    RETURN NULL;
  END IF;
  RETURN NEW;
END $$;

CREATE TRIGGER "preview_links_limit" BEFORE INSERT ON "preview_links" FOR EACH ROW EXECUTE FUNCTION "limit_preview_links"();
