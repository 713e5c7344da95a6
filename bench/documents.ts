import { createHash } from 'node:crypto'
import { seededRandom } from './statistics.ts'

// Documents that resemble landing pages: JSON text of an exact length, the same in every run.

export const SMALL_BYTES = 2 * 1024
export const LARGE_BYTES = 30 * 1024

/** A document, and the id under which it is read. */
export interface Page {
  readonly publicId: string
  readonly text: string
}

const WORDS =
  ('about above across after again all also always and any are around ask at be because become before ' +
    'begin best ' +
    'better between bring build business but buy by call can care change choose clear come company ' +
    'create customer day deliver ' +
    'design discover each easy every experience fast feel find first for free from fresh get give go ' +
    'good great grow happy help ' +
    'here home hour how idea if improve in into it join keep know learn less let life like live local ' +
    'long look love made make ' +
    'many market meet more most move need new next not now of offer on one only open or order other our ' +
    'out over own part people ' +
    'place plan play price product quality quick ready real save see sell send service share shop show ' +
    'simple since start stay ' +
    'step still story style support take team than that the their them then there they thing this time ' +
    'to today together track ' +
    'travel try turn under until up use value very visit want way we week welcome well what when where ' +
    'which while who why will ' +
    'with work world would year you your').split(' ')

/** Returns a JSON object of exactly `bytes` ASCII characters. */
export function makeDocument (bytes: number, seed: number): string {
  const random = seededRandom(seed)
  const words = (count: number): string =>
    Array.from({ length: count }, () => WORDS[Math.floor(random() * WORDS.length)]).join(' ')
  const number = (below: number): number => Math.floor(random() * below)
  const section = () => ({
    type: ['hero', 'features', 'gallery', 'quote', 'pricing'][number(5)],
    heading: words(4),
    text: words(20 + number(25)),
    image: {
      url: `https://images.example.com/${number(1e9).toString(36)}.jpg`,
      width: 640 + 16 * number(80),
      height: 360 + 9 * number(80),
      alt: words(5)
    },
    button: { label: words(2), href: `/${words(2).replace(' ', '-')}`, primary: random() < 0.5 }
  })
  const document = {
    serial: '0000000000',
    title: words(5),
    locale: 'en',
    theme: { colour: `#${(0x100000 + number(0xefffff)).toString(16)}`, font: 'Inter', radius: number(16) },
    sections: [] as object[],
    footer: ''
  }
  const missing = (): number => bytes - JSON.stringify(document).length
  if (missing() < 0) throw new Error(`A document of ${bytes} bytes is too small`)
  for (let next = section(); JSON.stringify(next).length + 1 <= missing(); next = section()) {
    document.sections.push(next)
  }
  document.footer = words(missing()).slice(0, missing())
  return JSON.stringify(document)
}

/** Id and text of many documents that differ only in a number. `seedManyPages` has the same rule in SQL. */
export const manyPublicId = (index: number): string => `bench${String(index).padStart(17, '0')}`
export const manyText = (base: string, index: number): string =>
  base.replace('"serial":"0000000000"', `"serial":"${String(index).padStart(10, '0')}"`)

export const sha256 = (bytes: Buffer | string): string =>
  createHash('sha256').update(bytes).digest('base64url')
