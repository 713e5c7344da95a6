import { Type, type Static } from '@sinclair/typebox'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { UnauthorizedError } from '../../errors.ts'
import { auditRequest } from '../../http/access-log.ts'
import { checkPreconditions, contentHash, isNotModified,
  type Validators } from '../../http/conditional-requests.ts'
import { entityTag } from '../../http/content-encoding.ts'
import { sendWithoutBody } from '../../http/responses.ts'
import { conditionalRead, errors, response, WriteConditions } from '../../http/schemas.ts'
import { isPreviewUrl, previewUrl } from '../../setting-types.ts'

const AccountSettings = Type.Object({
  preview_url: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    maxLength: previewUrl.maxLength,
    check: (text: string) => isPreviewUrl(text) ? [] : [`must be ${previewUrl.expects}`],
    description:
      'The address at which the website of the account shows a page, for links of the console; null if ' +
      `there is none. It must be ${previewUrl.expects}. The console fills in these values of the page.`,
    examples: ['https://www.example.com/preview/{public_id}']
  })
}, { title: 'AccountSettings', examples: [{ preview_url: 'https://www.example.com/preview/{public_id}' }] })

const getSettingsSchema = {
  operationId: 'getSettings',
  summary: "Read the settings of the caller's account",
  description: 'The setting `PREVIEW_URL` of the service, for accounts without an own address, is not shown.',
  ...conditionalRead(AccountSettings, 'The settings')
}

const putSettingsSchema = {
  operationId: 'putSettings',
  summary: "Replace the settings of the caller's account",
  description: 'Without `If-Match`, the last of two requests at once wins.',
  headers: WriteConditions,
  body: AccountSettings,
  response: {
    200: response(AccountSettings, 'The settings', 'ETag'),
    ...errors([422], [], { 422: `Preview url must be ${previewUrl.expects}` })
  }
}

type Settings = Static<typeof AccountSettings>

/** The settings have no time of their last change, so conditions with dates have no effect. */
const validatorsOf = (settings: Settings): Validators => (
  { etag: entityTag(contentHash(JSON.stringify(settings))) }
)

/** The routes of the account's settings. They need an access token. */
export const accountSettingsRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { user } = app.database

  async function findSettings (id: number): Promise<Settings> {
    const found = await user.findUnique({ where: { id }, select: { previewUrl: true } })
    // The account was deleted after the request had begun.
    if (found === null) throw new UnauthorizedError()
    return { preview_url: found.previewUrl }
  }

  app.get('/auth/settings', { schema: getSettingsSchema }, async (request, reply) => {
    const settings = await findSettings(request.session.userId)
    const validators = validatorsOf(settings)
    checkPreconditions(request, validators)
    reply.header('etag', validators.etag)
    return isNotModified(request.headers, validators) ? sendWithoutBody(reply.code(304)) : settings
  })

  app.put('/auth/settings', { schema: putSettingsSchema }, async (request, reply) => {
    const { session: { userId: id }, body: { preview_url: previewUrl } } = request
    for (let written = 0; written === 0;) {
      const read = await findSettings(id)
      checkPreconditions(request, validatorsOf(read))
      const { count } = await user.updateMany({
        where: { id, previewUrl: read.preview_url },
        data: { previewUrl }
      })
      written = count
    }
    auditRequest(request, 'settings_changed')
    const settings = { preview_url: previewUrl }
    reply.header('etag', validatorsOf(settings).etag)
    return settings
  })
}
