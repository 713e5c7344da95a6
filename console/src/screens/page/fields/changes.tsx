import type { ComponentChildren } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import { readJson } from '#json-text'
import { compareFields, differenceOf, type Change,
  type TextDifference } from '../../../fields/compare-fields.ts'
import { childrenOf, readField, type Field, type TextField } from '../../../fields/field.ts'
import { stepLabel, valueOf } from '../../../fields/find-fields.ts'
import { excerpt, labelOf } from '../../../fields/labels.ts'
import { pictureKeyOf } from '../../../fields/pictures.ts'
import type { ComparedText } from '../../../editor/comparison.ts'
import { AssetFinder, usePicture } from './asset-finder.ts'
import { PictureImage } from './picture-image.tsx'
import './fields.css'

// Loaded when two versions are compared: `await import('./fields/changes.tsx')`.

const KINDS = { added: 'Added', removed: 'Removed', changed: 'Changed', moved: 'In another order' } as const

/** The most characters that are shown of a whole group or list. */
const MAX_SUMMARY = 300
const MAX_PART = 80
/** The most pictures that are shown of a group or a list. */
const MAX_PICTURES = 4
/** So much of a long text is shown around its difference. */
const AROUND = 80

interface ChangesProps {
  /** Documents that fields can show. */
  readonly before: ComparedText
  readonly after: ComparedText
}

/** The fields that differ between two versions. */
export function Changes ({ before, after }: ChangesProps) {
  const [assets] = useState(() => new AssetFinder())
  const changes = useMemo(() => {
    const read = ({ text }: ComparedText) => readField(text, readJson(text))
    return compareFields(read(before), read(after))
  }, [before.text, after.text])
  if (changes.length === 0) {
    return (
      <p>
        {before.text === after.text ? 'Both are the same.'
          : 'No field has changed, only how the code is written.'}
      </p>
    )
  }
  return (
    <ol class='changes'>
      {changes.map((change, index) => (
        <ChangeRow change={change} names={[before.label, after.label]} assets={assets} key={index} />
      ))}
    </ol>
  )
}

interface ChangeRowProps {
  readonly change: Change
  /** What both versions are called. */
  readonly names: readonly [string, string]
  readonly assets: AssetFinder
}

function ChangeRow ({ change: { kind, labels, before, after }, names, assets }: ChangeRowProps) {
  const difference = before?.type === 'text' && after?.type === 'text'
    ? differenceOf(before.text, after.text) : undefined
  const textOf = kind === 'moved' ? namesOf : summaryOf
  return (
    <li class='changes__change'>
      <p class='changes__label'>
        <bdi>{labels.join(' › ') || 'The whole page'}</bdi> <span class='changes__kind'>{KINDS[kind]}</span>
      </p>
      {before !== undefined && (
        <Side kind='before' name={names[0]} field={before} assets={assets}>
          {difference === undefined ? textOf(before)
            : <Around difference={difference}>{difference.before && <del>{difference.before}</del>}</Around>}
        </Side>
      )}
      {after !== undefined && (
        <Side kind='after' name={names[1]} field={after} assets={assets}>
          {difference === undefined ? textOf(after)
            : <Around difference={difference}>{difference.after && <ins>{difference.after}</ins>}</Around>}
        </Side>
      )}
    </li>
  )
}

interface SideProps {
  readonly kind: 'before' | 'after'
  /** What the version is called. */
  readonly name: string
  readonly field: Field
  readonly assets: AssetFinder
  /** The value in words. */
  readonly children: ComponentChildren
}

/** Shows a value before or after a change. If it is the address of a picture, it shows the picture. */
function Side ({ kind, name, field, assets, children }: SideProps) {
  const { isPicture, asset } = usePicture(assets, field.type === 'text' ? field.text : '')
  return (
    <div class={`changes__side changes__side--${kind}`}>
      <span class='changes__name'>{name}</span>
      {isPicture && field.type === 'text'
        ? (
          <span class='changes__picture'>
            <PictureImage address={field.text} asset={asset} />
            <bdi>{asset?.filename ?? 'Picture'}</bdi>
          </span>
        )
        : (
          <>
            <bdi class='changes__text'>{children}</bdi>
            {picturesIn(field).slice(0, MAX_PICTURES).map((address) => (
              <SidePicture address={address} assets={assets} key={address} />
            ))}
          </>
        )}
    </div>
  )
}

interface SidePictureProps {
  readonly address: string
  readonly assets: AssetFinder
}

/** A picture in a group or a list. */
function SidePicture ({ address, assets }: SidePictureProps) {
  const { isPicture, asset } = usePicture(assets, address)
  return isPicture ? <PictureImage address={address} asset={asset} /> : null
}

/** Returns the addresses of the pictures in a group or a list, each once. */
const picturesIn = (field: Field): string[] => [
  ...new Set(childrenOf(field).flatMap(([, child]) => isPicture(child) ? [child.text] : picturesIn(child)))
]

const isPicture = (field: Field): field is TextField =>
  field.type === 'text' && pictureKeyOf(field.text) !== undefined

interface AroundProps {
  readonly difference: TextDifference
  readonly children: ComponentChildren
}

/** What differs between two texts, with what is around it. */
function Around ({ difference: { start, end }, children }: AroundProps) {
  return (
    <>
      {start.length > AROUND ? `… ${start.slice(-AROUND)}` : start}
      {children}
      {end.length > AROUND ? `${end.slice(0, AROUND)} …` : end}
    </>
  )
}

/** Returns a value in words: of a group or a list, all that is in it. */
function summaryOf (field: Field): string {
  const parts = childrenOf(field).map(([step, child]) => {
    const text = isPicture(child) ? 'a picture' : excerpt(summaryOf(child), MAX_PART)
    return typeof step === 'string' ? `${labelOf(step)}: ${text}` : text
  })
  return excerpt(parts.length === 0 ? valueOf(field) : parts.join(' · '), MAX_SUMMARY) || 'Empty'
}

/** Returns what the entries of a list are called, in their order. */
const namesOf = (list: Field): string =>
  excerpt(childrenOf(list).map(([index, entry]) => stepLabel(entry, index)).join(' · '), MAX_SUMMARY)
