import { createReceiver } from './receiver.js'

const { WEBHOOK_SECRET = '', PORT = '4000' } = process.env

const receiver = createReceiver(WEBHOOK_SECRET.split(' '), ({ type, data: { page, version } }) => {
  console.log(page === undefined ? type : `${type} ${page.public_id}, version ${version}`)
})
receiver.listen(PORT, () => console.log(`Listening on port ${PORT}`))
