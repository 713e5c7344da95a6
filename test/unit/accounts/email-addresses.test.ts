import t from 'tap'
import { checkEmail, isEmailAddress, isPlainEmailAddress,
  normalizeEmail } from '../../../src/modules/accounts/mail/email-addresses.ts'

/** Whether sign-up accepts an address as a client sends it. */
const isAccepted = (given: string): boolean => isPlainEmailAddress(normalizeEmail(given))

const REFUSED: Readonly<Record<string, readonly string[]>> = {
  'letters and signs that NFKC replaces': [
    ...['ａ@example.com', 'a@ｅxample.com', 'a＠example.com', 'a@example．com', 'ﬁ@example.com', 'a@ﬁ.com'],
    ...['a@ª.com', 'ſ@example.com', 'a@ſ.com', 'a@㏕.com']
  ],
  'what IDNA ignores, or reads as a dot': [
    ...['a@example。com', 'a。b@example.com', 'a\u00adb@example.com', 'a@exam\u00adple.com'],
    ...['a\u200db@example.com', 'a@क्\u200dष.com', 'a\u034fb@example.com', 'a\ufe0fb@example.com'],
    ...['\u{20bb7}\u{e0100}@example.com', '\u200bz@example.com', 'a\u115fb@example.com']
  ],
  'letters of which versions of IDNA make different domains': [
    'a@straße.example',
    'a@STRAẞE.example',
    'a@βόλος.example',
    'a@ꭰ.com'
  ],
  'marks that change the direction of the text': ['a\u202eb@example.com', 'a@\u2066example.com'],
  'the syntax of headers and SMTP': [
    ...['=?utf-8?q?b=40example.org?=@example.com', 'a@example.com\r\nBcc: b@example.org'],
    ...['a\r\nRCPT TO:<b@example.org>@example.com', 'a\u2028b@example.com', 'a\0b@example.com'],
    ...['a(comment)@example.com', 'a@(comment)example.com', '"a"@example.com', '"a\r\nb"@example.com'],
    ...['A <a@example.com>', '<a@example.com>', 'a@example.com>', '@a:b@c.example', 'a@b@example.com'],
    ...['a@example.com,b@example.org', 'a@example.com;b@example.org', 'group:a@example.com;'],
    ...['a\\b@example.com', 'a\\@b@example.com']
  ],
  'domains that are none': [
    ...['a@[127.0.0.1]', 'a@[IPv6:::1]', 'a@127.0.0.1', 'a@0x7f.1', 'a@example.com:25'],
    ...['a@example.com/b', 'a@ex%61mple.com', 'a@xn--a.com', 'a@münchen.xn--p1ai', 'a@example.com.'],
    ...['a@', 'a@example..com']
  ],
  'local parts that are none': [
    '@example.com',
    'a b@example.com',
    'a\ud800@example.com',
    '.a@example.com',
    'deleted account 1'
  ]
}

const ACCEPTED: Readonly<Record<string, readonly string[]>> = {
  'ordinary characters of a local part': [
    ...['a.b+tag@example.com', 'A@EXAMPLE.COM', "!#$%&'*+/=?^_`{|}~-@example.com", 'a%b@example.com'],
    ...['a!b@example.com']
  ],
  'letters that are converted or composed': ['ame\u0301lie@mu\u0308nchen.example', '\u212a@\u212a.example'],
  'letters of all scripts': [
    ...['amélie@münchen.example', 'ı@ıstanbul.example', 'großmann@example.com', 'иван@пример.рф'],
    ...['田中@日本語.jp', 'דוד@אבג.example', '\u{20bb7}\u7530@example.com']
  ],
  'a domain in A-labels': ['a@xn--mnchen-3ya.example']
}

t.test('sign-up refuses addresses that some program could read as another address', async (t) => {
  for (const [what, addresses] of Object.entries(REFUSED)) {
    for (const [n, given] of addresses.entries()) t.notOk(isAccepted(given), `${what}: number ${n + 1}`)
  }
})

t.test('sign-up accepts plain addresses of all scripts', async (t) => {
  for (const [what, addresses] of Object.entries(ACCEPTED)) {
    for (const [n, given] of addresses.entries()) t.ok(isAccepted(given), `${what}: number ${n + 1}`)
  }
})

t.test('characters that look alike but are not mapped make different addresses', async (t) => {
  t.not(normalizeEmail('ı@example.com'), normalizeEmail('i@example.com'))
  t.not(normalizeEmail('İ@example.com'), normalizeEmail('i@example.com'))
})

t.test('sign-in still accepts the addresses of older accounts', async (t) => {
  for (const email of ['"a"@example.com', 'ﬁ@example.com', 'a@straße.example']) {
    t.ok(isEmailAddress(email), email)
    t.notOk(isPlainEmailAddress(email), email)
  }
})

t.test('an address that is too long for all checks is only too long', async (t) => {
  t.same(checkEmail(`${'a'.repeat(3000)}@example.com`), [])
  t.same(checkEmail(`<${'a'.repeat(3000)}@example.com`), ['is invalid'])
})
