-- As before, but the trigger takes the locks, so that no statement has to. The lock on the user waits for a change of
-- the password, after which the caller may have no access any more. The lock on the page lets one link be created at a
-- time: each query of a trigger sees what others have committed, also while it waited.
CREATE OR REPLACE FUNCTION "limit_preview_links"() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM users WHERE id = NEW.user_id FOR SHARE;
  PERFORM FROM landing_pages WHERE id = NEW.page_id FOR NO KEY UPDATE;
  IF NOT FOUND OR (SELECT count(*) FROM preview_links WHERE page_id = NEW.page_id AND expires_at > now()) >= 20 THEN
    RETURN NULL;
  END IF;
  RETURN NEW;
END $$;
