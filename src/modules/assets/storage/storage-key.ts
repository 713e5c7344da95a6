import { randomPublicId } from '../../../infra/system/identifiers.ts'

/**
 * Types that a browser may display, and their extensions: formats without scripts, and PDF, whose scripts are
 * isolated. All other types, such as HTML, SVG and XML, are served as downloads.
 * deploy/nginx/nginx.conf.template repeats this list; a test compares them.
 */
const INLINE_TYPES: Readonly<Record<string, string>> = {
  'image/png': 'png',
  'image/apng': 'apng',
  'image/jpeg': 'jpg',
  'image/gif': 'gif',
  'image/webp': 'webp',
  'image/avif': 'avif',
  'image/heic': 'heic',
  'image/heif': 'heif',
  'image/jxl': 'jxl',
  'image/bmp': 'bmp',
  'image/tiff': 'tif',
  'image/x-icon': 'ico',
  'audio/mpeg': 'mp3',
  'audio/mp4': 'm4b',
  'audio/x-m4a': 'm4a',
  'audio/aac': 'aac',
  'audio/ogg': 'ogg',
  'audio/wav': 'wav',
  'audio/flac': 'flac',
  'video/mp4': 'mp4',
  'video/x-m4v': 'm4v',
  'video/webm': 'webm',
  'video/ogg': 'ogv',
  'video/quicktime': 'mov',
  'video/matroska': 'mkv',
  'video/mpeg': 'mpg',
  'font/woff': 'woff',
  'font/woff2': 'woff2',
  'font/ttf': 'ttf',
  'font/otf': 'otf',
  'application/pdf': 'pdf'
}

/**
 * Types that are served as downloads with their own type and extension, so that the right program opens the
 * saved file. SVG works in `<img>`, where browsers don't run its scripts. Don't add HTML, XML or JavaScript.
 */
const DOWNLOAD_TYPES: Readonly<Record<string, string>> = {
  'image/svg+xml': 'svg',
  'text/plain': 'txt',
  'text/csv': 'csv',
  'application/json': 'json',
  'application/zip': 'zip',
  'application/gzip': 'gz',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
  'application/vnd.openxmlformats-officedocument.presentationml.presentation': 'pptx'
}

export const EXTENSIONS: Readonly<Record<string, string>> = { ...INLINE_TYPES, ...DOWNLOAD_TYPES }
const TYPE_OF_EXTENSION: ReadonlyMap<string, string> =
  new Map(Object.entries(EXTENSIONS).map(([type, extension]) => [extension, type]))

const KEY = /^([0-9A-Za-z]{22})(?:\.([a-z0-9]{2,5}))?$/
const VARIANT = /^([0-9A-Za-z]{22})\/w([1-9]\d{0,4})\.(jpg|png|webp)$/

/** Extensions of the types that can have variants, which are smaller copies made by the service. */
const PICTURES: ReadonlySet<string> = new Set(['jpg', 'png', 'webp', 'gif', 'avif'])
/** The folder of the variants. Backups and the list of files leave it out. */
export const VARIANTS_FOLDER = '.variants'

/** How a stored file is served. */
export interface Presentation {
  readonly contentType: string
  readonly inline: boolean
}

/** A file of a type that is not listed. */
export const DOWNLOAD: Presentation = { contentType: 'application/octet-stream', inline: false }

/** Tells whether browsers may display files of this type. */
export const isInlineType = (contentType: string): boolean => Object.hasOwn(INLINE_TYPES, contentType)

/** Returns a new, unguessable name. Its extension determines how the file is served, without a query. */
export const newStorageKey = (contentType: string): string =>
  Object.hasOwn(EXTENSIONS, contentType) ? `${randomPublicId()}.${EXTENSIONS[contentType]}` : randomPublicId()

/** Returns how to serve a file; undefined if the name is neither a storage key nor that of a variant. */
export function presentationOf (name: string): Presentation | undefined {
  const match = KEY.exec(name)
  if (match !== null && match[2] === undefined) return DOWNLOAD
  const contentType = TYPE_OF_EXTENSION.get(match?.[2] ?? parseVariantName(name)?.extension ?? '')
  return contentType === undefined ? undefined : { contentType, inline: isInlineType(contentType) }
}

export interface VariantName {
  /** The storage key of the original without its extension. */
  readonly stem: string
  /** In pixels. */
  readonly width: number
  readonly extension: 'jpg' | 'png' | 'webp'
}

/** Parses the name of a variant, such as `7Hq2LJtB7sZ4uNfE8aGd1o/w640.webp`. */
export function parseVariantName (name: string): VariantName | undefined {
  const [, stem = '', width, extension] = VARIANT.exec(name) ?? []
  if (extension === undefined) return undefined
  return { stem, width: Number(width), extension: extension as VariantName['extension'] }
}

export const variantName = ({ stem, width, extension }: VariantName): string =>
  `${stem}/w${width}.${extension}`

/** Returns a storage key without its extension. All variants of a picture have it in their names. */
export const stemOf = (key: string): string => key.slice(0, 22)

/** Returns the storage keys that the original of a variant may have. */
export const possibleOriginals = (stem: string): string[] =>
  [...PICTURES].map((extension) => `${stem}.${extension}`)

const ADDRESS = /(?:^|\/)([0-9A-Za-z]{22})(?:\.[a-z0-9]{2,5}|\/w[1-9]\d{0,4}\.(?:jpg|png|webp))?$/

/** Returns the storage keys that the file, or the original of the variant, at a URL may have. */
export function possibleKeysAt (url: string): string[] {
  const [, stem] = ADDRESS.exec(url) ?? []
  if (stem === undefined) return []
  return [stem, ...Object.values(EXTENSIONS).map((extension) => `${stem}.${extension}`)]
}

/** Whether a file may have variants. */
export const isPicture = (key: string): boolean => PICTURES.has(KEY.exec(key)?.[2] ?? '')

/**
 * Returns where a file is stored, below the uploads folder or the prefix of the bucket.
 *
 * @throws {Error} for a name that the service can't have created, from a row that another program wrote
 */
export function storagePath (name: string): string {
  if (isStorageKey(name)) return name
  if (parseVariantName(name) !== undefined) return `${VARIANTS_FOLDER}/${name}`
  throw new Error('The name of a file is neither a storage key nor the name of a variant')
}

/**
 * Returns the Content-Disposition of a file (RFC 6266). A download keeps its name: in ASCII for old clients,
 * and encoded as RFC 8187 says.
 *
 * @param filename undefined if the database could not be asked
 */
export function contentDisposition ({ inline }: Presentation, filename?: string): string {
  if (inline) return 'inline'
  if (filename === undefined) return 'attachment'
  const ascii = filename.replaceAll(/[^\x20-\x7e]|["%\\]/gu, '_')
  const encoded = encodeURIComponent(filename).replaceAll(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`
  )
  return `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`
}

/** Whether `newStorageKey` can have returned a name. */
export const isStorageKey = (name: string): boolean => KEY.test(name) && presentationOf(name) !== undefined

/** The file or object next to the uploads that records which database they belong to. */
export const OWNER = '.database'
