import { readFileSync } from 'node:fs'
import rateLimit from '@fastify/rate-limit'
import Fastify from 'fastify'

// @fastify/rate-limit with counters in the process.

const document = readFileSync(process.env.DOCUMENT_FILE)
const app = Fastify()
await app.register(rateLimit, { max: 1_000_000_000, timeWindow: 60_000 })

app.get('/landing_pages/:public_id', (request, reply) => {
  reply.type('application/json; charset=utf-8').send(document)
})

await app.listen({ host: process.env.HOST, port: Number(process.env.PORT) })
