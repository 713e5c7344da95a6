import { u16, u32 } from './picture-parts.ts'

// Colour profiles of RGB spaces, written by hand, and what their colours are in sRGB.

type Triple = readonly [number, number, number]

/** Red, green and blue in XYZ, relative to the white of ICC profiles (D50), and how samples become light. */
export interface ColourSpace {
  readonly name: string
  readonly primaries: readonly [red: Triple, green: Triple, blue: Triple]
  readonly toLight: (sample: number) => number
}

const srgbToLight = (sample: number): number =>
  sample <= 0.04045 ? sample / 12.92 : ((sample + 0.055) / 1.055) ** 2.4
const lightToSrgb = (light: number): number =>
  light <= 0.0031308 ? light * 12.92 : 1.055 * light ** (1 / 2.4) - 0.055

export const SRGB: ColourSpace = {
  name: 'sRGB',
  primaries: [[0.43607, 0.22249, 0.01392], [0.38515, 0.71687, 0.09708], [0.14307, 0.06061, 0.7141]],
  toLight: srgbToLight
}
export const DISPLAY_P3: ColourSpace = {
  name: 'Display P3',
  primaries: [[0.51512, 0.2412, -0.00105], [0.29198, 0.69225, 0.04189], [0.1571, 0.06657, 0.78407]],
  toLight: srgbToLight
}
export const ADOBE_RGB: ColourSpace = {
  name: 'Adobe RGB',
  primaries: [[0.60974, 0.31111, 0.01947], [0.20528, 0.62567, 0.06087], [0.14919, 0.06322, 0.74457]],
  toLight: (sample) => sample ** (563 / 256)
}
/** Nobody can overlook that this profile was ignored: its red is green. */
export const SWAPPED: ColourSpace = {
  ...SRGB,
  name: 'Swapped',
  primaries: [SRGB.primaries[1], SRGB.primaries[0], SRGB.primaries[2]]
}

const fixed = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeInt32BE(Math.round(value * 65_536))
  return bytes
}
const xyz = (values: Triple): Buffer =>
  Buffer.concat([Buffer.from('XYZ \0\0\0\0', 'latin1'), ...values.map(fixed)])
const WHITE: Triple = [0.9642, 1, 0.8249]
const CURVE_POINTS = 1024

/** Returns an ICC profile (version 2). `note` becomes a part of its copyright. */
export function iccProfile ({ name, primaries, toLight }: ColourSpace, note = ''): Buffer {
  const points = Array.from(
    { length: CURVE_POINTS },
    (_, index) => u16(Math.round(toLight(index / (CURVE_POINTS - 1)) * 65_535))
  )
  const curve = Buffer.concat([Buffer.from('curv\0\0\0\0', 'latin1'), u32(CURVE_POINTS), ...points])
  const description = Buffer.concat([
    Buffer.from('desc\0\0\0\0', 'latin1'),
    u32(name.length + 1),
    Buffer.from(`${name}\0`),
    Buffer.alloc(78)
  ])
  const tags: readonly (readonly [string, Buffer])[] = [
    ['desc', description],
    ['cprt', Buffer.from(`text\0\0\0\0${note}\0`)],
    ['wtpt', xyz(WHITE)],
    ['rXYZ', xyz(primaries[0])],
    ['gXYZ', xyz(primaries[1])],
    ['bXYZ', xyz(primaries[2])],
    ['rTRC', curve],
    ['gTRC', curve],
    ['bTRC', curve]
  ]
  let at = 128 + 4 + 12 * tags.length
  const table = [u32(tags.length)]
  const contents: Buffer[] = []
  for (const [tag, content] of tags) {
    const padded = Buffer.concat([content, Buffer.alloc(-content.length & 3)])
    table.push(Buffer.from(tag), u32(at), u32(content.length))
    contents.push(padded)
    at += padded.length
  }
  return Buffer.concat([profileHeader(at), ...table, ...contents])
}

function profileHeader (size: number): Buffer {
  const header = Buffer.alloc(128)
  header.writeUInt32BE(size)
  header.writeUInt32BE(0x02_10_00_00, 8)
  header.write('mntrRGB XYZ ', 12, 'latin1')
  for (const [index, value] of [2026, 11, 23, 9, 0, 0].entries()) header.writeUInt16BE(value, 24 + index * 2)
  header.write('acsp', 36, 'latin1')
  Buffer.concat(WHITE.map(fixed)).copy(header, 68)
  return header
}

/** Returns what a colour of a space is in sRGB; samples from 0 to 255. */
export function toSrgb (space: ColourSpace, colour: Triple): Triple {
  const light = apply(space.primaries, colour.map((sample) => space.toLight(sample / 255)))
  const [red, green, blue] = apply(XYZ_TO_SRGB, light)
    .map((sample) => Math.round(lightToSrgb(Math.min(1, Math.max(0, sample))) * 255))
  return [red ?? 0, green ?? 0, blue ?? 0]
}

/** Columns, as primaries are. The inverse of sRGB's primaries. */
const XYZ_TO_SRGB: readonly Triple[] = [[3.13414, -0.97880, 0.07196], [-1.61739, 1.91628, -0.22899], [
  -0.49063,
  0.03346,
  1.40536
]]

const apply = (columns: readonly Triple[], values: readonly number[]): number[] =>
  [0, 1, 2].map((row) =>
    columns.reduce((sum, column, index) => sum + (column[row] ?? 0) * (values[index] ?? 0), 0)
  )
