import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { buildTestApp, signUp } from '../../helpers/app.ts'
import { jpegOfScans } from '../../helpers/hostile-pictures.ts'
import { asJpeg, card } from '../../shared/pictures.ts'
import { ask, askPatiently, readAsset, store, watchProcesses, type Variant } from '../../helpers/variants.ts'

// A picture that takes its decoder a minute, which no other limit forbids.

/** Twice as many as are needed today to exceed the processor time of a variant. */
const SCANS = 20_000
const MAX_MEMORY_MIB = 640 + 128
/** Processor time: the limit of a variant is 15 s, and the process has to start. */
const MAX_SECONDS = 25

t.test(
  'a picture whose third attempt takes too long has no variants, and others have',
  async (t) => {
    const app = await buildTestApp(t, { IMAGE_WIDTHS: '320' })
    const account = await signUp(app)
    const use = watchProcesses(t)
    const slow = await store(app, account, jpegOfScans({ width: 6000, height: 6000 }, SCANS))
    const { url } = slow.variants[0] as Variant
    // Each attempt takes 15 s. variants.test.ts counts all three.
    await app.database.asset.updateMany({ data: { variantFailures: 2 } })
    const responses = new Set<number>()
    for (let { variants } = slow; variants.length > 0; { variants } = await readAsset(app, account, slow)) {
      const { statusCode, headers } = await ask(app, url)
      responses.add(statusCode)
      if (statusCode !== 404) t.match(headers, { 'retry-after': /^\d+$/ })
      await sleep(100)
    }
    responses.add((await ask(app, url)).statusCode)
    t.same([...responses], [503, 404])
    t.ok(use.memoryMib < MAX_MEMORY_MIB, `${use.memoryMib} MiB`)
    t.ok(use.seconds < MAX_SECONDS, `${use.seconds} s`)
    const other = await store(app, account, await asJpeg(card()))
    t.equal((await askPatiently(app, (other.variants[0] as Variant).url)).statusCode, 200)
  }
)
