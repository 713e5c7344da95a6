import { existsSync, readdirSync, statSync } from 'node:fs'
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { FastifyInstance, FastifyPluginAsync, FastifyRequest } from 'fastify'
import { sendsMail } from '../../config.ts'
import { ConsoleNotBuiltError, NoStartPageError, NotFoundError } from '../../errors.ts'
import { readBuiltFile, sendBuiltFile, type BuiltFile } from '../../http/built-files.ts'
import { IMMUTABLE, JSON_CONTENT_TYPE } from '../../http/common-headers.ts'
import { contentHash } from '../../http/conditional-requests.ts'
import { parseWeights } from '../../http/content-encoding.ts'

/** Where the build puts the files. Both src/ and dist/ are three folders above this file. */
const BUILT_FILES = fileURLToPath(new URL('../../../dist/console/', import.meta.url))

const PAGE = 'index.html'

interface ConsoleFiles {
  readonly page: BuiltFile
  /** The other files by their path relative to the page, such as `assets/index-a1b2c3.js`. */
  readonly others: ReadonlyMap<string, BuiltFile>
}

/** Relative, because a proxy may put the service below the path of BASE_URL. */
const CONSOLE = './console/'

/** The files and settings of the console, and the redirect of browsers that open `/`. */
export const consoleRoutes: FastifyPluginAsync = async (app) => {
  const files = readConsoleFiles(BUILT_FILES)
  if (files === undefined) app.log.warn('the console is not built; "npm run build" builds it')

  app.get('/', async (request, reply) => {
    reply.header('vary', 'Accept')
    if (!prefersPage(request)) throw new NoStartPageError(`${app.baseUrl()}/docs`)
    return await reply.redirect(CONSOLE)
  })

  app.get('/console', async (_request, reply) => await reply.redirect(CONSOLE))

  app.get('/console/settings.json', (request, reply) => {
    if (files === undefined) throw new ConsoleNotBuiltError()
    const bytes = Buffer.from(JSON.stringify(settingsFor(app, files.page.hash)))
    reply.header('cache-control', 'no-cache')
    sendBuiltFile(request, reply, { type: JSON_CONTENT_TYPE, hash: contentHash(bytes), bytes })
  })

  app.get<{ Params: { '*': string } }>('/console/*', (request, reply) => {
    if (files === undefined) throw new ConsoleNotBuiltError()
    const path = request.params['*']
    const file = path === '' ? files.page : files.others.get(path)
    if (file === undefined) throw new NotFoundError()
    if (path === '') reply.headers({ ...pageHeaders(app), 'cache-control': 'no-cache' })
    // The names of these files contain a hash of their content.
    else reply.header('cache-control', path.startsWith('assets/') ? IMMUTABLE : 'no-cache')
    sendBuiltFile(request, reply, file)
  })
}

/** Whether a client likes HTML better than JSON, as browsers do when they open a page. */
function prefersPage ({ headers: { accept = '' } }: FastifyRequest): boolean {
  const weights = parseWeights(accept)
  const json = weights.get('application/json') ?? weights.get('application/*') ?? weights.get('*/*') ?? 0
  return (weights.get('text/html') ?? 0) > json
}

/** What the console has to know about the service. */
const settingsFor = ({ config, baseUrl }: FastifyInstance, version: string) => ({
  version,
  base_url: baseUrl(),
  sign_up: config.SIGN_UP,
  sends_mail: sendsMail(config),
  requires_confirmed_email: config.REQUIRE_CONFIRMED_EMAIL,
  max_document_bytes: config.MAX_DOCUMENT_BYTES,
  max_upload_bytes: config.MAX_UPLOAD_BYTES,
  trash_days: config.TRASH_DAYS,
  preview_url: config.PREVIEW_URL ?? null,
  has_webhooks: config.WEBHOOKS
})

/** The page loads only its own files, and pictures from where the uploaded files are. */
function pageHeaders ({ config, baseUrl }: FastifyInstance): Record<string, string> {
  const urls = [baseUrl(), config.UPLOADS_PUBLIC_URL ?? []].flat()
  const origins = [...new Set(urls.map((url) => new URL(url).origin))].join(' ')
  return {
    'content-security-policy':
      `default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data: ${origins}; ` +
      `connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
    'cross-origin-opener-policy': 'same-origin'
  }
}

/** Reads the files of the console into memory. @returns undefined if nobody has built it */
function readConsoleFiles (folder: string): ConsoleFiles | undefined {
  if (!existsSync(join(folder, PAGE))) return undefined
  const others = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name !== PAGE && !name.endsWith('.br') && statSync(join(folder, name)).isFile())
    .map((name) => [name.replaceAll(sep, '/'), readBuiltFile(join(folder, name))] as const)
  return { page: readBuiltFile(join(folder, PAGE)), others: new Map(others) }
}
