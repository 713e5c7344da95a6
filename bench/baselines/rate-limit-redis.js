import { readFileSync } from 'node:fs'
import rateLimit from '@fastify/rate-limit'
import Fastify from 'fastify'
import { Redis } from 'ioredis'

// Everything in Redis: the counters, so that replicas share the limit, and the document for each read.

const redis = new Redis(process.env.REDIS_URL)
await redis.set(`document:${process.env.PUBLIC_ID}`, readFileSync(process.env.DOCUMENT_FILE))

const app = Fastify()
await app.register(rateLimit, { max: 1_000_000_000, timeWindow: 60_000, redis })

app.get('/landing_pages/:public_id', async (request, reply) => {
  const document = await redis.getBuffer(`document:${request.params.public_id}`)
  if (document === null) return reply.code(404).send({ errors: ['Not found'] })
  return reply.type('application/json; charset=utf-8').send(document)
})

await app.listen({ host: process.env.HOST, port: Number(process.env.PORT) })
