-- AlterTable
ALTER TABLE "users" ADD COLUMN     "preview_url" TEXT;
