import type { FastifyPluginAsync } from 'fastify'
import { pageFiles } from './page-files.ts'

/** The pages load only their own files, and send only to the service. */
const PAGE_POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** The pages behind the links in mails. None of their requests changes anything. */
export const linkPageRoutes: FastifyPluginAsync = async (app) => {
  for (const [path, [type, content]] of Object.entries(pageFiles(app.config.CONSOLE))) {
    app.get(
      path,
      async (_request, reply) =>
        await reply.type(type).header('content-security-policy', PAGE_POLICY).send(content)
    )
  }
}
