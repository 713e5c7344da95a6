-- CreateTable
CREATE TABLE "webhooks" (
    "id" UUID NOT NULL,
    "user_id" INTEGER NOT NULL,
    "slot" SMALLINT NOT NULL,
    "url" TEXT NOT NULL,
    "name" TEXT,
    "events" TEXT[],
    "pages" UUID[] DEFAULT ARRAY[]::UUID[],
    "batch_seconds" INTEGER NOT NULL DEFAULT 0,
    "active" BOOLEAN NOT NULL DEFAULT true,
    "paused_reason" TEXT,
    "generation" INTEGER NOT NULL DEFAULT 1,
    "previous_until" TIMESTAMPTZ(3),
    "failing_since" TIMESTAMPTZ(3),
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "webhooks_pkey" PRIMARY KEY ("id")
);

-- CreateTable
CREATE TABLE "outbox" (
    "key" BIGSERIAL NOT NULL,
    "id" UUID NOT NULL,
    "target" UUID NOT NULL,
    "user_id" INTEGER NOT NULL,
    "page_id" UUID NOT NULL,
    "public_id" TEXT,
    "type" TEXT NOT NULL,
    "version" BIGINT,
    "content_hash" TEXT,
    "author_type" TEXT,
    "author_name" TEXT,
    "merged" INTEGER NOT NULL DEFAULT 0,
    "state" TEXT NOT NULL DEFAULT 'waiting',
    "due_at" TIMESTAMPTZ(3),
    "settled_at" TIMESTAMPTZ(3) NOT NULL,
    "unconfirmed" INTEGER NOT NULL DEFAULT 1,
    "attempts" SMALLINT NOT NULL DEFAULT 0,
    "last_attempt_at" TIMESTAMPTZ(3),
    "status" SMALLINT,
    "error" TEXT,
    "duration_ms" INTEGER,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "changed_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,

    CONSTRAINT "outbox_pkey" PRIMARY KEY ("key")
);

-- CreateIndex
CREATE UNIQUE INDEX "webhooks_user_id_slot_key" ON "webhooks"("user_id", "slot");

-- CreateIndex
CREATE UNIQUE INDEX "outbox_target_id_key" ON "outbox"("target", "id");

-- One message waits and one is under way for each page and receiver.
CREATE UNIQUE INDEX "outbox_waiting_key" ON "outbox"("target", "page_id") WHERE state = 'waiting';
CREATE UNIQUE INDEX "outbox_sending_key" ON "outbox"("target", "page_id") WHERE state = 'sending';

-- What is due, by receiver.
CREATE INDEX "outbox_target_due_at_idx" ON "outbox"("target", "due_at") WHERE state IN ('waiting', 'sending');

-- AddForeignKey
ALTER TABLE "webhooks" ADD CONSTRAINT "webhooks_user_id_fkey" FOREIGN KEY ("user_id") REFERENCES "users"("id") ON DELETE CASCADE ON UPDATE CASCADE;
