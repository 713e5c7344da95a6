import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@sinclair/typebox'
import { InvalidError, NotFoundError } from '../../../errors.ts'
import { auditRequest } from '../../../http/access-log.ts'
import { checkWithoutTags } from '../../../http/conditional-requests.ts'
import { pageOf, PageQuery, takePage } from '../../../http/pagination.ts'
import { recordOf, sendWithoutBody } from '../../../http/responses.ts'
import { errors, IdParams, NAME_RULES, nothing, nullableTime, response } from '../../../http/schemas.ts'
import { createCheckedToken } from '../../../infra/system/identifiers.ts'
import { confirmCaller } from '../../accounts/index.ts'
import { allowNoBody, findOwnPage, ownPage } from '../manage/write-checks.ts'
import { createLink, deleteLink, hasLink, listLinks, MAX_LINKS, TOKEN_PREFIX } from './link-repository.ts'

const DEFAULT_SECONDS = 7 * 24 * 60 * 60

const fields = {
  id: IdParams.properties.id,
  name: Type.Union([Type.String(), Type.Null()], { description: 'For the list of links; null without one' }),
  created_at: Type.String({ format: 'date-time' }),
  expires_at: Type.String({ format: 'date-time', description: 'Time from which the link is refused' }),
  last_used_at: nullableTime('Time of the last use, to the minute; null before the first')
}
const PreviewLink = Type.Object(fields, { title: 'PreviewLink' })
const NewPreviewLink = Type.Object({
  ...fields,
  token: Type.String({
    pattern: '^lfp_[0-9A-Za-z]{46}$',
    description: 'The token, which is shown only once. Send it as `Authorization: Bearer lfp_…`.',
    examples: ['lfp_3kTMd92iV0aQbYwRr7uXnH5sLzJcE8pG1fKo4tDq26BzXy']
  })
}, { title: 'NewPreviewLink' })

const CreateBody = Type.Object({
  name: Type.Optional(Type.Unsafe<string | null>({
    type: ['string', 'null'],
    ...NAME_RULES,
    description: 'For the list of links'
  })),
  expires_in: Type.Optional(Type.Integer({
    minimum: 300,
    maximum: 30 * 24 * 60 * 60,
    description: 'Seconds until the link expires; a week by default'
  }))
}, { title: 'CreatePreviewLink', examples: [{ name: 'For Ada', expires_in: 86_400 }] })

const LinkParams = Type.Object({
  ...IdParams.properties,
  link_id: { ...IdParams.properties.id, description: 'The `id` of the link' }
})

const TOO_MANY_LINKS = `A page can have ${MAX_LINKS} preview links: delete one that is not needed any more`

const createLinkSchema = {
  operationId: 'createPreviewLink',
  summary: 'Create a preview link of a Landing Page',
  description:
    'Whoever has the `token` can read the draft of this page, or its document if there is no draft, ' +
    `published or not. The link is valid until it expires or is deleted. A page can have ${MAX_LINKS} links ` +
    'that have not expired. A new password and a confirmed email address delete all links of the account.',
  params: IdParams,
  body: CreateBody,
  response: {
    201: response(NewPreviewLink, 'The link with its token, which is shown only once', 'Location'),
    ...errors([422], [], { 422: TOO_MANY_LINKS })
  }
}
const listLinksSchema = {
  operationId: 'listPreviewLinks',
  summary: 'List the preview links of a Landing Page, newest first',
  description: 'Without their tokens. Expired links are not included.',
  params: IdParams,
  querystring: PageQuery,
  response: { 200: response(Type.Array(PreviewLink), 'The links', 'Link?') }
}
const deleteLinkSchema = {
  operationId: 'deletePreviewLink',
  summary: 'Delete a preview link',
  description: 'The link is refused immediately, on all replicas.',
  params: LinkParams,
  response: { 204: nothing('Deleted') }
}

/** The owner's routes of preview links. */
export const previewLinkRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { database } = app
  const url = '/manage/landing_pages/:id/preview_links'
  const pathOf = (pageId: string): string => url.replace(':id', pageId)
  checkWithoutTags(
    app,
    url,
    async (request) => {
      const { link_id: linkId } = request.params as { link_id?: string }
      return linkId === undefined ? await findOwnPage(request) !== null
        : await hasLink(database, ownPage(request), linkId)
    }
  )

  app.post(url, { schema: createLinkSchema, preValidation: allowNoBody }, async (request, reply) => {
    const page = { userId: request.caller.userId, id: (await findOwnPage(request)).id }
    const { name = null, expires_in: expiresIn = DEFAULT_SECONDS } = request.body
    const token = createCheckedToken(TOKEN_PREFIX)
    const created = await createLink(database, page, { name, token, expiresIn })
    if (created === undefined) {
      await findOwnPage(request) // throws if it has been removed meanwhile
      throw new InvalidError([TOO_MANY_LINKS])
    }
    // Otherwise a link could outlive a change of the password that was under way.
    request.callerSeenAt = -Infinity
    await confirmCaller(request).catch(async (error: unknown) => {
      await deleteLink(database, page, created.id)
      throw error
    })
    auditRequest(request, 'preview_link_created', { page: page.id, link: created.id })
    reply.code(201).header('location', app.publicPath(`${pathOf(page.id)}/${created.id}`))
    return { ...recordOf(created), token }
  })

  app.get(url, { schema: listLinksSchema }, async (request, reply) => {
    const page = pageOf(request.query)
    const found = await listLinks(database, ownPage(request), page)
    if (found.length === 0) await findOwnPage(request)
    return takePage(reply, pathOf(request.params.id), page, found).map(recordOf)
  })

  app.delete(`${url}/:link_id`, { schema: deleteLinkSchema }, async (request, reply) => {
    const page = ownPage(request)
    const { link_id: id } = request.params
    if (!await deleteLink(database, page, id)) throw new NotFoundError()
    auditRequest(request, 'preview_link_deleted', { page: page.id.toLowerCase(), link: id.toLowerCase() })
    return sendWithoutBody(reply.code(204))
  })
}
