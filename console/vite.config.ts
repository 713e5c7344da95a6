import { join } from 'node:path'
import { defineConfig } from 'vite'
import { compressAndMeasure } from './compress-and-measure.ts'

const SERVICE = 'http://localhost:3000'
const ROUTES = ['^/(auth|api_keys|webhooks|manage|landing_pages|assets|uploads)', '/console/settings.json']

export default defineConfig(({ command }) => ({
  root: import.meta.dirname,
  // Relative in the build, because BASE_URL may have a path.
  base: command === 'build' ? './' : '/console/',
  resolve: { alias: { '#json-text': join(import.meta.dirname, '../packages/json-text/src/index.ts') } },
  build: {
    outDir: join(import.meta.dirname, '../dist/console'),
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: { checks: { pluginTimings: false } } // the compression takes most of the time
  },
  plugins: [compressAndMeasure()],
  server: {
    // `npm run dev:console` takes everything but the console itself from a running service. The service
    // compares Host with Origin, so Host must stay.
    proxy: Object.fromEntries(ROUTES.map((route) => [route, { target: SERVICE, changeOrigin: false }]))
  }
}))
