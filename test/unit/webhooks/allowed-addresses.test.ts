import t from 'tap'
import { allowedAddresses, checkUrl } from '../../../src/modules/webhooks/sending/post.ts'

// Which URLs a webhook may have. post.test.ts checks the addresses behind names.

const NOWHERE = allowedAddresses([])
const problemsOf = (url: string) => checkUrl(url, NOWHERE, false)

t.test('public addresses and names are accepted', async (t) => {
  const urls = [
    'https://example.com/hooks?a=b',
    'https://example.com:8443',
    'https://93.184.216.34/',
    'https://[2606:2800:220:1:248:1893:25c8:1946]/',
    'https://bücher.example/',
    'https://localhost.example.com/'
  ]
  for (const url of urls) t.same(problemsOf(url), [], url)
})

t.test('private and special addresses are refused in every spelling', async (t) => {
  const hosts = [
    ...'127.0.0.1 127.1 127.0.0.1. 2130706433 0x7f.1 0x7f000001 017700000001 0177.0.0.1'.split(' '),
    ...'%31%32%37.0.0.1 １２７.0.0.1 127。0。0。1 0 0.0.0.0 10.0.0.1 172.16.0.1 192.168.0.1'.split(' '),
    ...'169.254.169.254 0xa9fea9fe 100.64.0.1 192.0.2.1 198.18.0.1 224.0.0.1 255.255.255.255'.split(' '),
    ...'240.0.0.1 [::] [::1] [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1] [::ffff:7f00:1]'.split(' '),
    ...'[::ffff:a9fe:a9fe] [::127.0.0.1] [::ffff:0:127.0.0.1] [fe80::1] [fec0::1] [fc00::1]'.split(' '),
    ...'[fd12:3456::1] [ff02::1] [64:ff9b::127.0.0.1] [64:ff9b::a00:1] [64:ff9b:1::a00:1]'.split(' '),
    ...'[2002:7f00:1::] [2002:a00:1::] [2001:0:1::1] [2001:db8::1] [3fff::1] [100::1]'.split(' '),
    ...'[5f00::1] [4000::1] localhost LOCALHOST. hooks.localhost'.split(' ')
  ]
  for (const host of hosts) {
    t.same(problemsOf(`https://${host}/`), ['must not have a private or special address'], host)
  }
})

t.test('other URLs are refused', async (t) => {
  const urls = [
    'ftp://example.com/',
    'file:///etc/passwd',
    'gopher://127.0.0.1/',
    'example.com',
    '',
    'https://',
    'https://exa mple.com/',
    ' https://example.com/',
    'https://example.com/\r\nx: y',
    'https://[fe80::1%25eth0]/',
    'https://127.0.0.256/',
    'unix:/run/docker.sock'
  ]
  for (const url of urls) t.same(problemsOf(url), ['must be an https:// address'], url)
  t.same(problemsOf('http://example.com/'), [
    'must be an https:// address (http:// only in the networks of WEBHOOK_NETWORKS)'
  ])
  for (const url of ['https://user@example.com/', 'https://:secret@example.com/']) {
    t.same(problemsOf(url), ['must not contain a user name or password'], url)
  }
})

t.test('own networks are allowed in every spelling of their addresses, also over http', async (t) => {
  const own = allowedAddresses(['10.1.0.0/16', '127.0.0.1', 'fd00::/8'])
  const urls = [
    'http://10.1.2.3/',
    'https://10.1.2.3/',
    'http://[::ffff:10.1.2.3]/',
    'http://127.1/',
    'http://localhost:4000/',
    'http://[fd00::1]/'
  ]
  for (const url of urls) t.same(checkUrl(url, own, true), [], url)
  const refused = [
    'http://10.2.0.1/',
    'https://127.0.0.2/',
    'http://[::1]/',
    'http://[64:ff9b::a01:203]/',
    'http://93.184.216.34/'
  ]
  for (const url of refused) {
    t.same(checkUrl(url, own, true), ['must not have a private or special address'], url)
  }
})
