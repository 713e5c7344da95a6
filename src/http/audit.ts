import type { FastifyRequest } from 'fastify'
import { audit, type AuditEvent, type AuditFields } from '../infra/telemetry/audit.ts'

/** Writes a line of the audit trail with the id and the client address of a request. */
export function auditRequest (request: FastifyRequest, event: AuditEvent, fields: AuditFields): void {
  audit(request.log, event, {
    address: request.server.addressOf(request).full,
    key: request.keyId,
    ...fields
  })
}
