import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

// The floor of Node: no router, one constant answer. Plain JavaScript, like its neighbours: nothing stands between what
// is written and what is measured. All of them are told by HOST, PORT, PUBLIC_ID and DOCUMENT_FILE what to serve.

const document = readFileSync(process.env.DOCUMENT_FILE)

createServer((request, response) => {
  response.writeHead(200, { 'content-type': 'application/json; charset=utf-8', 'content-length': document.length })
  response.end(document)
}).listen(Number(process.env.PORT), process.env.HOST)
