import { Type } from '@sinclair/typebox'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { auditRequest } from '../../http/access-log.ts'
import { errors, response } from '../../http/schemas.ts'
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
}, {
  title: 'AccountSettings',
  examples: [{ preview_url: 'https://www.example.com/preview/{public_id}' }]
})

const getSettingsSchema = {
  operationId: 'getSettings',
  tags: ['Accounts'],
  summary: "Read the settings of the caller's account",
  description: 'The setting `PREVIEW_URL` of the service, for accounts without an own address, is not shown.',
  response: { 200: response(AccountSettings, 'The settings') }
}

const putSettingsSchema = {
  operationId: 'putSettings',
  tags: ['Accounts'],
  summary: "Replace the settings of the caller's account",
  description: 'The last of two requests at once wins.',
  body: AccountSettings,
  response: {
    200: response(AccountSettings, 'The settings'),
    ...errors([422], [], { 422: `Preview url must be ${previewUrl.expects}` })
  }
}

/** The routes of the account's settings. They need an access token. */
export const accountSettingsRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { user } = app.database

  app.get('/auth/settings', { schema: getSettingsSchema }, async ({ session }) => {
    const found = await user.findUnique({ where: { id: session.userId }, select: { previewUrl: true } })
    return { preview_url: found?.previewUrl ?? null }
  })

  app.put('/auth/settings', { schema: putSettingsSchema }, async (request) => {
    const { session: { id, userId }, body } = request
    // No row: the account was deleted after the request had begun.
    await user.updateMany({ where: { id: userId }, data: { previewUrl: body.preview_url } })
    auditRequest(request, 'settings_changed', { user: userId, session: id })
    return body
  })
}
