import { PrismaPg } from '@prisma/adapter-pg'
import Fastify from 'fastify'
import { PrismaClient } from '../../dist/infra/postgres/generated/prisma/client.js'

// No limit and no cache: Prisma reads the document from the service's own table for each request.

const database = new PrismaClient({ adapter: new PrismaPg({ connectionString: process.env.DATABASE_URL }) })
const app = Fastify()

app.get('/landing_pages/:public_id', async (request, reply) => {
  const page = await database.landingPage.findUnique({
    where: { publicId: request.params.public_id },
    select: { currentData: true }
  })
  if (page === null) return reply.code(404).send({ errors: ['Not found'] })
  return reply.type('application/json; charset=utf-8').send(page.currentData)
})

await app.listen({ host: process.env.HOST, port: Number(process.env.PORT) })
