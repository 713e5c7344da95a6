import fc from 'fast-check'
import t from 'tap'
import { compareFields, differenceOf } from '../../../console/src/fields/compare-fields.ts'
import { addValue, createEntry, encodeText, parseNumber, removeValue,
  replaceValue } from '../../../console/src/fields/edits.ts'
import { childrenOf, fieldAt, readField, type Field, type ListField,
  type Path } from '../../../console/src/fields/field.ts'
import { FieldsModel } from '../../../console/src/fields/fields-model.ts'
import { whyNoFields } from '../../../console/src/fields/fields-reason.ts'
import { entryLabel, findFields } from '../../../console/src/fields/find-fields.ts'
import { labelOf } from '../../../console/src/fields/labels.ts'
import { isPictureAddress, isPictureName, pictureKeyOf } from '../../../console/src/fields/pictures.ts'
import { applyJsonPatch, readJson } from '../../../packages/json-text/src/index.ts'
import { containerText, space } from '../../helpers/json-text.ts'
import { LIMITS } from '../../helpers/patches.ts'

const read = (text: string): Field => readField(text, readJson(text))

const createModel = (text: string): FieldsModel => new FieldsModel(text, () => {})

/** Returns all fields that are no groups or lists, with their paths. */
const leavesOf = (field: Field, path: Path = []): Array<readonly [Path, Field]> => {
  const children = childrenOf(field)
  return children.length === 0 ? [[path, field]]
    : children.flatMap(([step, child]) => leavesOf(child, [...path, step]))
}

t.test('a name is shown in words', async (t) => {
  const cases = [
    ['headlineText', 'Headline text'],
    ['headline_text', 'Headline text'],
    ['headline-text', 'Headline text'],
    ['SEOTitle', 'SEO title'],
    ['imageUrl', 'Image URL'],
    ['überschrift', 'Überschrift'],
    ['@type', '@type'],
    ['', '(no name)']
  ] as const
  for (const [name, label] of cases) t.equal(labelOf(name), label, name)
})

t.test('each value becomes the field that fits it', async (t) => {
  const root = read('{"a": "x", "b": 1.50, "c": true, "d": null, "e": {"f": []}, "g": {"h": 1, "h": 2}}')
  const types = childrenOf(root).map(([, field]) => field.type)
  t.same(types, ['text', 'number', 'switch', 'empty', 'group', 'raw'])
  t.equal(fieldAt(root, ['b'])?.json, '1.50')
  t.equal(fieldAt(root, ['e', 'f'])?.type, 'list')
  t.equal(fieldAt(root, ['e', 'x']), undefined)
})

t.test('a text that an input would change is shown as it is written', async (t) => {
  t.equal(read('"a\\r\\nb\\r\\n"').type, 'text')
  t.equal(read('"a\\rb"').type, 'raw')
  t.equal(read('"a\\nb\\r\\nc"').type, 'raw')
  t.equal(read('"a\\r\\nb\\nc"').type, 'raw')
})

t.test('what is deeper than eight levels is shown as it is written', async (t) => {
  const root = read('['.repeat(10) + ']'.repeat(10))
  t.equal(fieldAt(root, Array<number>(7).fill(0))?.type, 'list')
  t.equal(fieldAt(root, Array<number>(8).fill(0))?.type, 'raw')
})

t.test('a document that fields can not show opens as text, and says why', async (t) => {
  t.equal(whyNoFields('{"a": 1}'), undefined)
  t.match(whyNoFields(`["${'x'.repeat(256 * 1024)}"]`), /too long/)
  t.equal(whyNoFields(`[${'1,'.repeat(1999)}1]`), undefined)
  t.match(whyNoFields(`[${'1,'.repeat(2000)}1]`), /too many values/)
  t.match(whyNoFields('{\n"a": }'), /mistake in line 2/)
  t.match(whyNoFields('{"a": 1, "a": 2}'), /the same name/)
})

t.test('a number is taken as it is typed, or a sentence says what to write', async (t) => {
  for (const typed of ['1.50', '-0', '0.10', '1e400', '12345678901234567890']) {
    t.same(parseNumber(typed), { json: typed })
  }
  t.same(parseNumber(' 7 '), { json: '7' })
  const cases = [
    ['10,50', 'Write 10.50, with a point.'],
    ['.5', 'Write 0.5.'],
    ['5.', 'Write 5.'],
    ['007', 'Write 7.'],
    ['+3', 'Write 3.'],
    ['1 000', 'Write 1000.'],
    ['1.234,50', 'Write 1234.50.'],
    ['1,234.50', 'Write 1234.50.'],
    ['1,234,567', 'Write 1234567.'],
    ['10,500', 'Write 10.500 or 10500.'],
    ['€ 12', 'Write 12.'],
    ['-4 %', 'Write -4.'],
    ['', 'Write a number, such as 10.50.'],
    ['ten', 'Write digits only, such as 10.50.']
  ] as const
  for (const [typed, message] of cases) t.same(parseNumber(typed), { message }, typed)
})

t.test('a new entry is like the last one, empty, with what is the same in all', async (t) => {
  const like = (text: string) => createEntry(read(text) as ListField)
  t.equal(like('[{ "name": "Tent", "price": 1.50 }]'), '{ "name": "", "price": 0 }')
  t.equal(
    like('[{"type": "card", "n": "a", "on": true}, {"type": "card", "n": "b", "on": true}]'),
    '{"type": "card", "n": "", "on": true}'
  )
  t.equal(like('[{"tags": [ "a", "b" ], "size": {"w": 2}}]'), '{"tags": [ "" ], "size": {"w": 0}}')
  t.equal(like('["a", "a"]'), '""')
  t.equal(like('[[1, 2], []]'), '[0]')
  t.equal(like('[{"a": "x", "tags": ["t", "u"]}, {"a": null, "tags": []}]'), '{"a": "", "tags": [""]}')
  t.equal(like('[{"a": null}, {"a": null}]'), '{"a": null}')
})

t.test('edits of one value are one step, until the person goes elsewhere', async (t) => {
  const model = createModel('{"a": "", "b": ""}')
  for (const typed of ['x', 'xy', 'xyz']) model.edit(replaceValue(['a'], encodeText(typed)))
  model.edit(replaceValue(['b'], '"1"'))
  model.endStep()
  model.edit(replaceValue(['b'], '"12"'))
  t.same(model.undo(), ['b'])
  t.equal(model.getText(), '{"a": "xyz", "b": "1"}')
  model.undo()
  t.same(model.undo(), ['a'])
  t.equal(model.canUndo, false)
  t.equal(model.isChanged, false)
  model.redo()
  t.equal(model.getText(), '{"a": "xyz", "b": ""}')
  t.equal(model.isChanged, true)
})

t.test('typing where an entry was added or removed keeps that step, and its part of the patch', async (t) => {
  const removed = createModel('["x","y"]')
  removed.edit(removeValue([0]))
  removed.edit(replaceValue([0], '"z"'))
  t.equal(removed.getText(), '["z"]')
  t.equal(removed.getPatch(), '[{"op":"remove","path":"/0"},{"op":"replace","path":"/0","value":"z"}]')
  removed.undo()
  t.equal(removed.getText(), '["y"]')
  const added = createModel('["x"]')
  added.edit(addValue([], 1, '""'))
  added.edit(replaceValue([1], '"z"'))
  t.equal(added.getText(), '["x","z"]')
  t.match(added.getPatch(), /"add".*"replace"/)
})

t.test('the patch has what was done since the last save, the last value of each', async (t) => {
  const model = createModel('{"a": 1.50, "list": []}')
  t.equal(model.getPatch(), undefined)
  model.edit(replaceValue(['a'], '2.50'))
  model.endStep()
  model.edit(replaceValue(['a'], '2.5'))
  model.edit(addValue(['list'], 0, '"x"'))
  t.equal(
    model.getPatch(),
    '[{"op":"replace","path":"/a","value":2.5},{"op":"add","path":"/list/0","value":"x"}]'
  )
  model.markSaved(model.getText())
  t.equal(model.getPatch(), undefined)
  model.edit(removeValue(['a']))
  t.equal(model.getPatch(), '[{"op":"remove","path":"/a"}]')
  model.undo()
  model.undo() // to before the save
  t.equal(model.getPatch(), undefined)
  t.equal(model.isChanged, true)
  model.redo()
  t.equal(model.isChanged, false)
})

t.test('a patch that is too large for the service is not made', async (t) => {
  const model = createModel('{"a": ""}')
  model.edit(replaceValue(['a'], encodeText('x'.repeat(70_000))))
  t.equal(model.getPatch(), undefined)
})

t.test('whatever is edited in any document, all other bytes stay, and undoing restores them', async () => {
  fc.assert(fc.property(
    space,
    containerText,
    space,
    fc.nat(),
    fc.string(),
    (before, json, after, place, typed) => {
      const text = before + json + after
      if (whyNoFields(text) !== undefined) return
      const model = createModel(text)
      const leaves = leavesOf(model.root).filter(([path]) => path.length > 0)
      const [path, field] = leaves[place % leaves.length] ?? []
      if (path === undefined || field === undefined) return
      const value = encodeText(typed)
      model.edit(replaceValue(path, value))
      const edited = model.getText()
      // The one place at which the old text has the field and the new one has what was typed.
      const start = startOf(text, path)
      if (edited !== text.slice(0, start) + value + text.slice(start + field.json.length)) return false
      const patch = model.getPatch()
      if (edited !== text && applyJsonPatch(text, patch ?? '[]', LIMITS) !== edited) return false
      model.undo()
      return model.getText() === text
    }
  ))
})

/** Returns where the value at a path starts. */
function startOf (text: string, path: Path): number {
  let node = readJson(text)
  for (const step of path) {
    const child = node.type === 'object' ? node.members.find(({ name }) => name === step)?.value
      : node.type === 'array' ? node.elements[step as number] : undefined
    if (child === undefined) throw new Error('There is nothing')
    node = child
  }
  return node.start
}

t.test('a field is found by the words of its label, its name or its value', async (t) => {
  const root =
    read('{"ticketPrice": 12, "shop": {"price": 10.5, "title": "Price list"}, "list": [{"name": "Tent"}]}')
  const find = (query: string) => findFields(root, query, 10).map(({ labels }) => labels.join('/'))
  t.same(find('price'), ['Ticket price', 'Shop/Price', 'Shop/Title'])
  t.same(find('shop price'), ['Shop/Price', 'Shop/Title'])
  t.same(find('ticketprice'), ['Ticket price'])
  t.same(find('10.5'), ['Shop/Price'])
  t.same(find('tent'), ['List/Tent', 'List/Tent/Name'])
  t.same(find('  '), [])
})

t.test('an entry is called after its title, or else its first text', async (t) => {
  const label = (json: string) => entryLabel(read(json), 2)
  t.equal(label('{"id": "7", "title": "Tent"}'), 'Tent')
  t.equal(label('{"image": "https://example.com/a.jpg", "quote": "So good"}'), 'So good')
  t.equal(label('{"price": 1}'), 'Entry 3')
  t.equal(label('{"title": " "}'), 'Entry 3')
  t.equal(label(`{"title": "${'x'.repeat(100)}"}`).length, 60)
})

t.test('addresses of assets and names of pictures are told apart from others', async (t) => {
  const key = '7Hq2LJtB7sZ4uNfE8aGd1o'
  t.same(pictureKeyOf(`https://example.com/uploads/${key}.jpg`), {
    folder: 'https://example.com/uploads/',
    key
  })
  t.same(pictureKeyOf(`/uploads/${key}/w640.webp`), { folder: '/uploads/', key })
  t.equal(pictureKeyOf(`/uploads/${key}.pdf`), undefined)
  t.equal(pictureKeyOf('/uploads/short.jpg'), undefined)
  t.equal(isPictureName('Hero image'), true)
  t.equal(isPictureName('Imagination'), false)
  t.equal(isPictureAddress(''), true)
  t.equal(isPictureAddress('https://example.com/a'), true)
  t.equal(isPictureAddress('Welcome'), false)
})

/** The changes between two documents, in short. */
const changesOf = (before: string, after: string): string[] =>
  compareFields(read(before), read(after)).map(({ kind, labels, before, after }) =>
    `${kind} ${labels.join(' > ')}: ${before?.json} | ${after?.json}`
  )

t.test('versions are compared field by field', async (t) => {
  t.same(changesOf('{"a": 1, "b": "\\u0041"}', '{ "b": "A", "a": 1 }'), [], 'only written in another way')
  t.same(changesOf('{"price": 1.5, "old": 1, "on": true}', '{"price": 1.50, "on": "yes", "newOne": null}'), [
    'changed Price: 1.5 | 1.50',
    'changed On: true | "yes"',
    'added New one: undefined | null',
    'removed Old: 1 | undefined'
  ])
  t.same(changesOf('[1]', '{"a": 1}'), ['changed : [1] | {"a": 1}'])
})

t.test('entries of a list are compared with the ones that they were', async (t) => {
  const entry = (name: string, price: number) => `{"name":"${name}","price":${price}}`
  const list = (...entries: string[]) => `{"items":[${entries.join(',')}]}`
  const [tent, lamp, chair] = [entry('Tent', 1), entry('Lamp', 2), entry('Chair', 3)] as const
  t.same(changesOf(list(tent, lamp), list(chair, tent, entry('Lamp', 5))), [
    `added Items > Chair: undefined | ${chair}`,
    'changed Items > Lamp > Price: 2 | 5'
  ])
  t.same(changesOf(list(tent, lamp, chair), list(tent, chair)), [`removed Items > Lamp: ${lamp} | undefined`])
  t.same(changesOf(list(tent, lamp), list(lamp, tent)), [
    `moved Items: [${tent},${lamp}] | [${lamp},${tent}]`
  ])
  t.same(changesOf(list(tent), list(entry('Big tent', 1))), [
    'changed Items > Tent > Name: "Tent" | "Big tent"'
  ])
  t.same(changesOf('["a","b"]', '["a","c"]'), ['changed b: "b" | "c"'])
})

t.test('what two texts have in common ends with a word', async (t) => {
  t.same(differenceOf('Up to 40 % off', 'Up to 50 % off'), {
    start: 'Up to ',
    before: '40 ',
    after: '50 ',
    end: '% off'
  })
  t.same(differenceOf('a', 'a b'), { start: '', before: 'a', after: 'a b', end: '' })
  fc.assert(fc.property(fc.string(), fc.string(), (one, other) => {
    const { start, before, after, end } = differenceOf(one, other)
    t.equal(start + before + end, one)
    t.equal(start + after + end, other)
  }))
})
