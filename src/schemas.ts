import { Type } from '@sinclair/typebox'

// Schemas that every room shares.

export const ErrorBody = Type.Object({
  errors: Type.Array(Type.String(), { description: 'Sentences that a person can read' })
})

export const IdParams = Type.Object({ id: Type.String({ format: 'uuid' }) })

declare module 'fastify' {
  interface FastifySchema {
    summary?: string
    description?: string
    security?: readonly Readonly<Record<string, readonly string[]>>[]
    /** Left out of descriptions. */
    hide?: boolean
  }
}
