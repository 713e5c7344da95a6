import type { FastifyInstance, FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify'
import { sendsMail } from '../../config.ts'
import { ConsoleNotBuiltError, NoStartPageError, NotFoundError } from '../../errors.ts'
import { IMMUTABLE, JSON_CONTENT_TYPE } from '../../http/common-headers.ts'
import { checkPreconditions, contentHash, isNotModified } from '../../http/conditional-requests.ts'
import { entityTag, parseWeights, preferredEncoding } from '../../http/content-encoding.ts'
import { sendWithoutBody } from '../../http/responses.ts'
import { BUILT_FILES, readConsoleFiles, type ConsoleFile } from './files.ts'

export interface ConsoleOptions {
  /** The folder with the built files. Default: `dist/console`. */
  readonly folder?: string
}

/** Relative, because a proxy may put the service below the path of BASE_URL. */
const CONSOLE = './console/'
/** The files have no date, only tags. */
const UNDATED = { modifiedAt: new Date(0), changesWithoutDate: true } as const

/** The files and settings of the console, and the redirect of browsers that open `/`. */
export const consoleRoutes: FastifyPluginAsync<ConsoleOptions> = async (app, { folder = BUILT_FILES }) => {
  const files = readConsoleFiles(folder)
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
    sendFile(request, reply, { type: JSON_CONTENT_TYPE, hash: contentHash(bytes), bytes, br: undefined })
  })

  app.get<{ Params: { '*': string } }>('/console/*', (request, reply) => {
    if (files === undefined) throw new ConsoleNotBuiltError()
    const path = request.params['*']
    const file = path === '' ? files.page : files.others.get(path)
    if (file === undefined) throw new NotFoundError()
    if (path === '') reply.headers({ ...pageHeaders(app), 'cache-control': 'no-cache' })
    // The names of these files contain a hash of their content.
    else reply.header('cache-control', path.startsWith('assets/') ? IMMUTABLE : 'no-cache')
    sendFile(request, reply, file)
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
  max_upload_bytes: config.MAX_UPLOAD_BYTES
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

/** Sends a file, or a 304 if the client has it. @throws {PreconditionFailedError} */
function sendFile (
  request: FastifyRequest,
  reply: FastifyReply,
  { type, hash, bytes, br }: ConsoleFile
): void {
  const isCompressed = br !== undefined && preferredEncoding(request.headers['accept-encoding']) === 'br'
  const [etag, other] = isCompressed ? [entityTag(hash, 'br'), entityTag(hash)]
    : [entityTag(hash), entityTag(hash, 'br')]
  const validators = { etag, otherTags: [other], ...UNDATED }
  checkPreconditions(request, validators)
  reply.headers({ etag, vary: 'Accept-Encoding' })
  if (isNotModified(request.headers, validators)) {
    sendWithoutBody(reply.code(304))
    return
  }
  if (isCompressed) reply.header('content-encoding', 'br')
  reply.type(type).send(isCompressed ? br : bytes)
}
