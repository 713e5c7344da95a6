import t, { type Test } from 'tap'
import { buildTestApp, signUp } from '../../helpers/app.ts'
import { bombs, damaged, polyglots, truncated } from '../../helpers/hostile-pictures.ts'
import { checkVariants, watchProcesses, type Fate } from '../../helpers/variants.ts'

// Pictures that attack their decoders: no response is a 500, and the service lives on.

/** A limit of the child process' own memory, and what its program and libraries take, in MiB. */
const MAX_MEMORY_MIB = 640 + 128

const app = await buildTestApp(t, { IMAGE_WIDTHS: '320' })
const account = await signUp(app)

/** Passes pictures through the service; returns the names of each fate. */
async function pass (t: Test, pictures: Record<string, Buffer>): Promise<Record<Fate, string[]>> {
  const use = watchProcesses(t)
  const fates: Record<Fate, string[]> = { made: [], refused: [], 'without variants': [] }
  for (const [name, content] of Object.entries(pictures)) {
    fates[await checkVariants(t, app, account, content, name)].push(name)
    const { statusCode } = await app.inject('/health/live')
    if (statusCode !== 200) t.fail(`the service is gone after ${name}`)
  }
  t.ok(use.memoryMib < MAX_MEMORY_MIB, `${Math.round(use.memoryMib)} MiB`)
  return fates
}

t.test('bombs and false sizes give small pictures or none', async (t) => {
  t.strictSame(await pass(t, await bombs()), {
    made: [
      'png with a profile of 1 GB',
      'png with a text of 1 GB',
      'png with 50,000 texts',
      'png with more pixels than it says',
      'gif of 10,000 frames on a large screen',
      'webp of 10,000 frames',
      'jpeg whose header says 7,000 by 7,000',
      'jpeg of 65,500 by 1',
      'jpeg of 100 scans'
    ],
    refused: [
      'png of 392 MB',
      'png with fewer pixels than it says',
      'gif without a frame',
      'webp whose header says 7,000 by 7,000',
      'avif whose header says 2,800 by 2,800'
    ],
    'without variants': ['png whose header says 2^31', 'gif whose screen is 65,535 by 65,535']
  })
})

t.test('files of two kinds give pictures without the other kind', async (t) => {
  t.strictSame(await pass(t, await polyglots()), {
    made: [
      ...'page.html.jpg after.jpg two.jpg archive.png chunk.png script.gif after.webp'.split(' '),
      ...'after.avif rows.png'.split(' ')
    ],
    refused: [],
    'without variants': 'brand.png drawing.png document.png sheet.png magick.jpg postscript.jpg'.split(' ')
  })
})

t.test('pictures that are cut off anywhere are shown or refused', async (t) => {
  const { made, refused } = await pass(t, await truncated())
  t.ok(made.length > 0 && refused.length > 0, `${made.length} made, ${refused.length} refused`)
})

t.test('pictures with damaged bytes are shown or refused', async (t) => {
  const { made, refused } = await pass(t, await damaged())
  t.ok(made.length > 0 && refused.length > 0, `${made.length} made, ${refused.length} refused`)
})
