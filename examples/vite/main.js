import { createLandfallClient, LandfallError, NotFoundError } from '@landfall/client'

const PREVIEW_POLL_SECONDS = 2
const RETRY_SECONDS = 5

const landfall = createLandfallClient({
  baseUrl: import.meta.env.VITE_LANDFALL_URL ?? 'http://localhost:3000'
})
const publicId = new URLSearchParams(document.location.search).get('page') ?? ''
// In the fragment, because browsers send that to nobody. It is not part of the site's code.
const token = new URLSearchParams(document.location.hash.slice(1)).get('preview')
let preview

const find = (selector) => document.querySelector(selector)
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000))
const say = (text) => {
  find('#state').textContent = text
}

/** Shows a document like the one in the README. */
function show ({ title = '', text = '', picture }) {
  find('h1').textContent = document.title = title
  find('#text').textContent = text
  const image = find('img')
  image.hidden = picture === undefined
  if (picture !== undefined) {
    image.alt = picture.alt ?? ''
    image.srcset = picture.srcset ?? ''
    image.src = picture.url
  }
  find('main').hidden = false
}

/** Shows the published document. Returns false when that is all. */
async function showPublished () {
  const page = await landfall.landingPages.read(publicId)
  show(page.document)
  say(page.stale ? 'This may be out of date.' : '')
  return false
}

/** Shows the draft if it has changed. An unchanged one is a 304 and transfers nothing. */
async function showPreview () {
  const before = preview?.etag
  preview = await landfall.landingPages.readPreview(publicId, token, { known: preview })
  if (preview.etag !== before) show(preview.document)
  say(preview.isDraft ? 'Preview of a draft' : 'Preview, without changes')
  return true
}

for (let goesOn = true; goesOn;) {
  let seconds = PREVIEW_POLL_SECONDS
  try {
    goesOn = token === null ? await showPublished() : await showPreview()
  } catch (error) {
    if (error instanceof NotFoundError) {
      say('There is no such page.')
      break
    }
    if (error instanceof LandfallError && error.status === 401) {
      say('The preview link has expired.')
      break
    }
    // A 429 says when the next read is allowed. Other errors: the service is away, or there is no network.
    seconds = error.retryAfterSeconds ?? RETRY_SECONDS
    say(error.status === 429 ? `Too many reads. Trying again in ${seconds} s.`
      : 'Offline. Trying again soon.')
  }
  if (goesOn) await sleep(seconds)
  // Nobody looks at a preview in a hidden tab.
  while (document.hidden) await sleep(1)
}
