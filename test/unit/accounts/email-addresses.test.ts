import t from 'tap'
import { checkEmail, isEmailAddress, isPlainEmailAddress,
  normalizeEmail } from '../../../src/modules/accounts/mail/email-addresses.ts'

/** Whether sign-up accepts an address as a client sends it. */
const isAccepted = (given: string): boolean => isPlainEmailAddress(normalizeEmail(given))

const REFUSED: Record<string, string> = {
  'a full-width letter': 'ａ@example.com',
  'a full-width letter in the domain': 'a@ｅxample.com',
  'a full-width @': 'a＠example.com',
  'a full-width full stop': 'a@example．com',
  'an ideographic full stop': 'a@example。com',
  'an ideographic full stop in the local part': 'a。b@example.com',
  'a ligature': 'ﬁ@example.com',
  'a ligature in the domain': 'a@ﬁ.com',
  'an ordinal indicator in the domain': 'a@ª.com',
  'a long s': 'ſ@example.com',
  'a long s in the domain': 'a@ſ.com',
  'a sharp s in the domain': 'a@straße.example',
  'a capital sharp s in the domain': 'a@STRAẞE.example',
  'a final sigma in the domain': 'a@βόλος.example',
  'a squared word': 'a@㏕.com',
  'a small letter that IDNA turns into a capital': 'a@ꭰ.com',
  'a soft hyphen': 'a\u00adb@example.com',
  'a soft hyphen in the domain': 'a@exam\u00adple.com',
  'a zero-width joiner': 'a\u200db@example.com',
  'a zero-width joiner in the domain': 'a@क्\u200dष.com',
  'a combining grapheme joiner': 'a\u034fb@example.com',
  'a variation selector': 'a\ufe0fb@example.com',
  'a Hangul filler': 'a\u115fb@example.com',
  'a mark that reverses the text': 'a\u202eb@example.com',
  'an isolate of the text direction': 'a@\u2066example.com',
  'an encoded word of a header': '=?utf-8?q?b=40example.org?=@example.com',
  'a line break and a header': 'a@example.com\r\nBcc: b@example.org',
  'a line break in the local part': 'a\r\nRCPT TO:<b@example.org>@example.com',
  'a line separator': 'a\u2028b@example.com',
  'a null': 'a\0b@example.com',
  'a comment': 'a(comment)@example.com',
  'a comment in the domain': 'a@(comment)example.com',
  'a quoted local part': '"a"@example.com',
  'a quoted local part with a line break': '"a\r\nb"@example.com',
  'a name and an address': 'A <a@example.com>',
  'an address in angle brackets': '<a@example.com>',
  'the end of an address': 'a@example.com>',
  'a source route': '@a:b@c.example',
  'two @': 'a@b@example.com',
  'two addresses with a comma': 'a@example.com,b@example.org',
  'two addresses with a semicolon': 'a@example.com;b@example.org',
  'a group': 'group:a@example.com;',
  'a backslash': 'a\\b@example.com',
  'an escaped @': 'a\\@b@example.com',
  'an address literal': 'a@[127.0.0.1]',
  'an IPv6 literal': 'a@[IPv6:::1]',
  'an IPv4 address': 'a@127.0.0.1',
  'a hexadecimal IPv4 address': 'a@0x7f.1',
  'a port': 'a@example.com:25',
  'a path': 'a@example.com/b',
  'a percent escape in the domain': 'a@ex%61mple.com',
  "an A-label that can't be decoded": 'a@xn--a.com',
  'an A-label beside a U-label': 'a@münchen.xn--p1ai',
  'a trailing dot': 'a@example.com.',
  'no local part': '@example.com',
  'no domain': 'a@',
  'a space': 'a b@example.com',
  'half a surrogate pair': 'a\ud800@example.com',
  'a zero-width space': '\u200bz@example.com',
  'a variation selector outside the BMP': '\u{20bb7}\u{e0100}@example.com',
  'two dots': 'a@example..com',
  'a leading dot': '.a@example.com',
  'the address of a deleted account': 'deleted account 1'
}

const ACCEPTED: Record<string, string> = {
  'a plain address': 'a.b+tag@example.com',
  'capitals, which are converted': 'A@EXAMPLE.COM',
  'all the characters of an atom': "!#$%&'*+/=?^_`{|}~-@example.com",
  'the percent hack, which is an ordinary local part': 'a%b@example.com',
  'a bang path, which is an ordinary local part': 'a!b@example.com',
  'letters with accents': 'amélie@münchen.example',
  'decomposed letters, which are composed': 'ame\u0301lie@mu\u0308nchen.example',
  'a Kelvin sign, which is converted to k': '\u212a@\u212a.example',
  'a dotless i, which is a letter of its own': 'ı@ıstanbul.example',
  'a sharp s in the local part': 'großmann@example.com',
  'a domain in A-labels': 'a@xn--mnchen-3ya.example',
  Cyrillic: 'иван@пример.рф',
  Japanese: '田中@日本語.jp',
  Hebrew: 'דוד@אבג.example',
  'a character beyond the BMP': '\u{20bb7}\u7530@example.com'
}

t.test('sign-up refuses addresses that some program could read as another address', async (t) => {
  for (const [name, given] of Object.entries(REFUSED)) t.notOk(isAccepted(given), name)
})

t.test('sign-up accepts plain addresses of all scripts', async (t) => {
  for (const [name, given] of Object.entries(ACCEPTED)) t.ok(isAccepted(given), name)
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
