import { readFileSync } from 'node:fs'
import Fastify from 'fastify'

// The reference: Fastify with one parametric route and one constant response: the document with status 200,
// or with another STATUS nothing (304) or an error (429).

const status = Number(process.env.STATUS ?? 200)
const document = readFileSync(process.env.DOCUMENT_FILE)
const error = Buffer.from('{"errors":["Too many requests"]}')
const app = Fastify()

const answers = {
  200: (request, reply) => {
    reply.type('application/json; charset=utf-8').send(document)
  },
  304: (request, reply) => {
    reply.code(304).send()
  },
  429: (request, reply) => {
    reply.code(429).type('application/json; charset=utf-8').send(error)
  }
}
app.get('/landing_pages/:public_id', answers[status])

await app.listen({ host: process.env.HOST, port: Number(process.env.PORT) })
