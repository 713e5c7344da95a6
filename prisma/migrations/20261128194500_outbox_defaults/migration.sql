-- The times of a message about a change that Redis doesn't know yet, by PostgreSQL's clock. They are those of
-- COLLECT_SECONDS and UNCONFIRMED_SECONDS in landing-pages/outbox-repository.ts.
ALTER TABLE "outbox" ALTER COLUMN "due_at" SET DEFAULT now() + interval '3 s';
ALTER TABLE "outbox" ALTER COLUMN "settled_at" SET DEFAULT now() + interval '61 s';
