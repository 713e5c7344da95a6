-- AlterTable
ALTER TABLE "assets" ADD COLUMN     "no_variants_reason" TEXT,
ADD COLUMN     "variant_failures" SMALLINT NOT NULL DEFAULT 0;
