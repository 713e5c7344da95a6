-- sessions_user_id_id_idx replaces it.
DROP INDEX "sessions_user_id_idx";
