import { cookies, draftMode } from 'next/headers'
import { redirect } from 'next/navigation'
import { PREVIEW_COOKIE, previews } from '../../../landfall.js'

/** Puts the token of a preview link into a cookie, and leads to the page: /api/preview?page=…&token=… */
export async function GET (request) {
  const { searchParams } = new URL(request.url)
  const publicId = searchParams.get('page') ?? ''
  const token = searchParams.get('token') ?? ''
  try {
    await previews.landingPages.readPreview(publicId, token)
  } catch (error) {
    if (error.status !== 401) throw error
    return new Response('This preview link has expired, or belongs to another page.', { status: 401 })
  }
  const mode = await draftMode()
  mode.enable()
  const path = `/${encodeURIComponent(publicId)}`
  const jar = await cookies()
  // The browser sends it for this page only, and no script can read it.
  jar.set(PREVIEW_COOKIE, token, {
    path,
    httpOnly: true,
    sameSite: 'lax',
    secure: process.env.NODE_ENV === 'production'
  })
  redirect(path)
}
