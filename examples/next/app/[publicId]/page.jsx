import { NotFoundError } from '@landfall/client'
import { cookies, draftMode } from 'next/headers'
import { notFound } from 'next/navigation'
import { PREVIEW_COOKIE, previews, published } from '../../landfall.js'

export default async function Page ({ params }) {
  const { publicId } = await params
  const preview = await readPreview(publicId)
  const { document } = preview ?? await readPublished(publicId)
  return (
    <main>
      {preview !== undefined && (
        <form action={endPreview}>
          {preview.isDraft ? 'Preview of a draft' : 'Preview, without changes'} <button>End</button>
        </form>
      )}
      <h1>{document.title}</h1>
      <p>{document.text}</p>
    </main>
  )
}

async function readPublished (publicId) {
  try {
    return await published.landingPages.read(publicId)
  } catch (error) {
    if (error instanceof NotFoundError) notFound()
    throw error
  }
}

/** Returns undefined for visitors without a preview of this page, or with one that has expired. */
async function readPreview (publicId) {
  if (!(await draftMode()).isEnabled) return undefined
  const token = (await cookies()).get(PREVIEW_COOKIE)?.value
  if (token === undefined) return undefined
  try {
    return await previews.landingPages.readPreview(publicId, token)
  } catch (error) {
    if (error.status === 401) return undefined
    throw error
  }
}

async function endPreview () {
  'use server'
  const mode = await draftMode()
  mode.disable()
}
