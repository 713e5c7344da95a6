import type { Config } from '../../config.ts'
import type { StorePlace } from '../../modules/assets/index.ts'

// The names of the files and folders in a backup, and the settings that the commands need.

/** A file written by pg_dump, in a backup of PostgreSQL. */
export const DUMP = 'database.dump'
/** A copy of DATA_DIR, in a backup of an embedded database. */
export const DATA = 'data'
/** The generated JWT secret, in DATA_DIR and in its copy. Missing if JWT_SECRET is set. */
export const SECRET = 'jwt-secret'
export const UPLOADS = 'uploads'

export type DatabaseKind = 'embedded' | 'postgresql'

/** The settings that say where the database and the uploads are. */
export type BackupConfig = Pick<Config, 'DATABASE_URL' | 'DATA_DIR'> & StorePlace
