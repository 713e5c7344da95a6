import { randomBytes } from 'node:crypto'
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import { fromRunner } from './servers.ts'

// Buckets on OpenStack Swift, which the runner starts for test files that call provide('swift').

/** Returns key, secret and address of the storage. */
function storageAccess () {
  const { origin, username, password } = new URL(fromRunner('TEST_S3_URL'))
  return {
    AWS_ENDPOINT_URL_S3: origin,
    AWS_ACCESS_KEY_ID: decodeURIComponent(username),
    AWS_SECRET_ACCESS_KEY: password
  }
}

/** Creates an empty bucket, which exists until the storage stops. Returns the settings of a service on it. */
export async function createBucket (prefix = '/some/prefix') {
  const access = storageAccess()
  const bucket = `landfall-test-${randomBytes(6).toString('hex')}`
  const client = s3Client(access)
  await client.send(new CreateBucketCommand({ Bucket: bucket }))
  client.destroy()
  return { UPLOADS_URL: `s3://${bucket}${prefix}`, ...access }
}

/** Returns an S3 client of the test's own. */
export function s3Client (
  { AWS_ENDPOINT_URL_S3: endpoint, AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey }:
    ReturnType<typeof storageAccess>
): S3Client {
  return new S3Client({
    endpoint,
    region: 'us-east-1',
    forcePathStyle: true,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    credentials: { accessKeyId, secretAccessKey }
  })
}
