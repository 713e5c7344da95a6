-- AlterTable
ALTER TABLE "landing_pages" ADD COLUMN     "key" TEXT,
ADD COLUMN     "key_changed_at" TIMESTAMPTZ(3);
