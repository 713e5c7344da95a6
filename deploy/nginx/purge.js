/* global ngx */
// Carries out the purges of a request for cache.conf: {"urls": […]}.
async function purge (request) {
  let status = 200
  try {
    // Debian's njs knows neither destructuring nor for…of.
    const urls = JSON.parse(request.requestText).urls
    for (let n = 0; n < urls.length; n++) {
      const url = urls[n]
      if (url.endsWith('/')) continue // variants of a picture, which nginx doesn't cache
      const path = url.replace(/^https?:\/\/[^/]+/, '')
      const response = await ngx.fetch(`http://127.0.0.1:8081${path}`)
      // The module answers 404 or 412 if nothing was cached.
      if (![200, 404, 412].includes(response.status)) status = 502
    }
  } catch (error) {
    request.error(`purge failed: ${error}`)
    status = 500
  }
  request.return(status)
}

export default { purge }
