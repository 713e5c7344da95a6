import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

/**
 * Writes a self-signed certificate to `fullchain.pem` and its key to `privkey.pem`.
 *
 * @param openssl `provide('openssl')`, which the runner looks for in test files only
 */
export function createCertificate (openssl: string, folder: string, more: readonly string[] = []): void {
  execFileSync(openssl, [
    ...'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2'.split(' '),
    ...['-subj', '/CN=localhost', ...more],
    ...['-keyout', join(folder, 'privkey.pem'), '-out', join(folder, 'fullchain.pem')]
  ], { stdio: 'ignore' })
}
