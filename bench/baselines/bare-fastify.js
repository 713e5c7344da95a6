import { readFileSync } from 'node:fs'
import Fastify from 'fastify'

// The reference: Fastify with one parametric route and one constant answer.

const document = readFileSync(process.env.DOCUMENT_FILE)
const app = Fastify()

app.get('/landing_pages/:public_id', (request, reply) => {
  reply.type('application/json; charset=utf-8').send(document)
})

await app.listen({ host: process.env.HOST, port: Number(process.env.PORT) })
