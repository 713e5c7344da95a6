import { randomPublicId } from '../identifiers.ts'

// The names of files on disk, in buckets and in URLs. They are made here alone, so whatever has another form is none of
// ours.

/** How long caches may keep a file, in seconds: its bytes never change under its name. */
export const YEAR_SECONDS = 365 * 24 * 60 * 60

/**
 * What a browser may show in place, and the extension that marks it: formats without scripts, and PDF, whose scripts
 * can't reach the page around it. Everything else (HTML, SVG and XML first of all) is only ever downloaded.
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
 * What is only downloaded, but under its own type and extension, so that the saved file opens. SVG is among them for
 * pages that show it as a picture, where no browser runs its scripts; HTML, XML and JavaScript are not.
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

/** The extension of each type that has one; a web server that serves the files by itself (deploy/nginx) has the same. */
export const EXTENSIONS: Readonly<Record<string, string>> = { ...INLINE_TYPES, ...DOWNLOAD_TYPES }
const TYPE_OF_EXTENSION: ReadonlyMap<string, string> =
  new Map(Object.entries(EXTENSIONS).map(([type, extension]) => [extension, type]))

const KEY = /^[0-9A-Za-z]{22}(?:\.([a-z0-9]{2,5}))?$/

/** How a stored file is served. */
export interface Presentation {
  readonly contentType: string
  readonly inline: boolean
}

const DOWNLOAD: Presentation = { contentType: 'application/octet-stream', inline: false }

/** Whether files of this type are shown in place. */
export const isInlineType = (contentType: string): boolean => Object.hasOwn(INLINE_TYPES, contentType)

/** A new name that can't be guessed. Its extension says how the file may be served, so no read has to ask the database. */
export const newStorageKey = (contentType: string): string =>
  Object.hasOwn(EXTENSIONS, contentType) ? `${randomPublicId()}.${EXTENSIONS[contentType]}` : randomPublicId()

/**
 * The guard of the uploads folder: how to serve the file of that name.
 *
 * @returns undefined for every name that `newStorageKey` can't have made
 */
export function presentationOf (name: string): Presentation | undefined {
  const match = KEY.exec(name)
  if (match === null) return undefined
  if (match[1] === undefined) return DOWNLOAD
  const contentType = TYPE_OF_EXTENSION.get(match[1])
  return contentType === undefined ? undefined : { contentType, inline: isInlineType(contentType) }
}

export const isStorageKey = (name: string): boolean => presentationOf(name) !== undefined

/** What says beside the files which database they belong to. */
export const OWNER = '.database'
