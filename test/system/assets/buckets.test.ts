import { provide } from '../../shared/programs.ts'
import './on-buckets.ts'
import '../../integration/assets/manage.test.ts'
import '../../integration/assets/serve.test.ts'
import '../../integration/assets/sweep.test.ts'
import '../../integration/assets/upload.test.ts'
import '../../integration/assets/variants.test.ts'
import '../../integration/assets/verify.test.ts'

// Runs the store-independent tests of test/integration/assets on buckets.

provide('swift')
