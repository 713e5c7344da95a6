import { defineConfig } from 'prisma/config'

// Read by the prisma command line only; the service takes its settings from src/config.ts.
export default defineConfig({
  schema: 'schema.prisma',
  migrations: { path: 'migrations' },
  datasource: { url: process.env.DATABASE_URL ?? '' }
})
