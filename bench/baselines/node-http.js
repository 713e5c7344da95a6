import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

// Node without a framework: one constant response. Baselines are JavaScript, so they run without a loader.
// bench/README.md describes their environment variables.

const document = readFileSync(process.env.DOCUMENT_FILE)

createServer((request, response) => {
  response.writeHead(200, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': document.length
  })
  response.end(document)
}).listen(Number(process.env.PORT), process.env.HOST)
