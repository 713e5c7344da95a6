import fc from 'fast-check'
import t from 'tap'
import { cleanFilename } from '../../../src/modules/assets/upload/filename.ts'

const cases: [given: string | undefined, clean: string][] = [
  [undefined, 'file'],
  ['..', 'file'],
  ['a/', 'file'],
  ['photo.png', 'photo.png'],
  [' photo.png ', 'photo.png'],
  ['.htaccess', '.htaccess'],
  ['/etc/passwd', 'passwd'],
  ['C:\\Users\\me\\photo.png', 'photo.png'],
  ['a/b\\c/d.txt', 'd.txt'],
  ['a\u0000b.png', 'ab.png'],
  ['..\u0000/..', 'file'],
  ['a\r\nSet-Cookie: x=y.txt', 'aSet-Cookie: x=y.txt'],
  ['a\u001b[31m.txt', 'a[31m.txt'],
  ['invoice\u202egpj.exe', 'invoicegpj.exe'],
  ['a\u2066b\u2069\u200f.txt', 'ab.txt'],
  ['\ufeffa\u200b\u200c\u200d.txt', 'a.txt'],
  ['a\u2028b\u2029.txt', 'ab.txt'],
  ['a\ud800b\udc00.txt', 'ab.txt'],
  ['\ud83d\ude00.png', '\ud83d\ude00.png'],
  ['Cafe\u0301.txt', 'Caf\u00e9.txt'],
  ['x'.repeat(300) + '.png', 'x'.repeat(251) + '.png'],
  ['é'.repeat(200) + '.png', 'é'.repeat(125) + '.png'],
  ['\ud83d\ude00'.repeat(100), '\ud83d\ude00'.repeat(63)],
  ['a.' + 'x'.repeat(300), 'a.' + 'x'.repeat(253)]
]

t.test('file names are sanitized', async (t) => {
  // A name of a test can't have all of these characters.
  for (const [index, [given, clean]] of cases.entries()) t.equal(cleanFilename(given), clean, `case ${index}`)
})

t.test('any input becomes a valid file name, and sanitizing it again changes nothing', async (t) => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string({ unit: 'binary', maxLength: 600 }),
        fc.string({ unit: fc.constantFrom('/', '\\', '.', '\0', '\ud800', '\u202e', 'é', 'a', ' ') })
      ),
      (given) => {
        const name = cleanFilename(given)
        return name.length > 0 && Buffer.byteLength(name) <= 255 && !/[/\\\p{Cc}\p{Cf}\p{Cs}]/u.test(name) &&
          name === name.normalize('NFC') && name !== '.' && name !== '..' && cleanFilename(name) === name
      }
    ),
    { numRuns: 500 }
  )
  t.pass()
})

t.test('a name of five million characters is sanitized quickly', async (t) => {
  t.equal(cleanFilename('\u202e'.repeat(5_000_000) + 'a.png'), 'a.png')
})
