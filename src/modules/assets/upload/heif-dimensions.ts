import { orient, type Dimensions } from './orientation.ts'

/** Larger than the number of properties and items of any photo. */
const MAX_BOXES = 2000

interface Box {
  readonly name: string
  readonly content: Buffer
}

/**
 * Returns the dimensions of the primary picture of an AVIF or HEIC file, cropped and turned as its properties
 * say; undefined if they can't be read. Other pictures in the file are a thumbnail, or tiles of a large one.
 *
 * @param heif the start of the file
 */
export function heifDimensions (heif: Buffer): Dimensions | undefined {
  const meta = find(boxes(heif), 'meta')?.subarray(4)
  if (meta === undefined) return undefined
  const inMeta = boxes(meta)
  const inProperties = boxes(find(inMeta, 'iprp') ?? Buffer.alloc(0))
  const [primary, associations] = [find(inMeta, 'pitm'), find(inProperties, 'ipma')]
  if (primary === undefined || associations === undefined) return undefined
  const properties = boxes(find(inProperties, 'ipco') ?? Buffer.alloc(0))
  const ofPrimary = propertyIndices(associations, itemId(primary, 4, primary[0] !== 0))
    .flatMap((index) => properties[index - 1] ?? [])

  const size = find(ofPrimary, 'ispe')
  if (size === undefined) return undefined
  const crop = find(ofPrimary, 'clap')
  const dimensions = crop === undefined
    ? { width: size.readUInt32BE(4), height: size.readUInt32BE(8) }
    : { width: quotient(crop, 0), height: quotient(crop, 8) }
  return orient(dimensions, ((find(ofPrimary, 'irot')?.[0] ?? 0) & 1) === 1)
}

const quotient = (bytes: Buffer, at: number): number =>
  Math.round(bytes.readUInt32BE(at) / bytes.readUInt32BE(at + 4))

const itemId = (bytes: Buffer, at: number, isLong: boolean): number =>
  isLong ? bytes.readUInt32BE(at) : bytes.readUInt16BE(at)

/** Returns the numbers, from 1, of the properties that belong to an item. */
function propertyIndices (ipma: Buffer, item: number): number[] {
  const hasLongIds = ipma[0] !== 0
  const hasLongIndices = ((ipma[3] ?? 0) & 1) === 1
  const items = Math.min(ipma.readUInt32BE(4), MAX_BOXES)
  for (let entry = 0, at = 8; entry < items; entry++) {
    const id = itemId(ipma, at, hasLongIds)
    at += hasLongIds ? 4 : 2
    const count = ipma.readUInt8(at++)
    if (id === item) {
      // The highest bit says whether a reader must understand the property.
      return Array.from(
        { length: count },
        (_, index) =>
          hasLongIndices ? ipma.readUInt16BE(at + 2 * index) & 0x7fff : ipma.readUInt8(at + index) & 0x7f
      )
    }
    at += count * (hasLongIndices ? 2 : 1)
  }
  return []
}

function boxes (bytes: Buffer): Box[] {
  const found: Box[] = []
  for (let at = 0; at + 8 <= bytes.length && found.length < MAX_BOXES;) {
    const size = bytes.readUInt32BE(at)
    if (size !== 0 && size < 8) break
    const end = size === 0 ? bytes.length : at + size
    found.push({ name: bytes.toString('latin1', at + 4, at + 8), content: bytes.subarray(at + 8, end) })
    at = end
  }
  return found
}

const find = (among: readonly Box[], name: string): Buffer | undefined =>
  among.find((box) => box.name === name)?.content
