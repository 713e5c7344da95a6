import { announce } from '../core/announcements.tsx'
import { Button } from './button.tsx'

interface CopyButtonProps {
  readonly text: string
  /** What is copied, such as `URL`. */
  readonly what: string
  /** Whether the text of the button contains `what`. Not needed if that stands beside it. */
  readonly isNamed?: boolean
}

/** Copies a text to the clipboard. */
export function CopyButton ({ text, what, isNamed = false }: CopyButtonProps) {
  const copy = async () => {
    const isCopied = await copyText(text)
    announce(isCopied ? `Copied: ${what}` : `The browser did not allow copying. Select the ${what} instead.`)
  }
  return (
    <Button kind='quiet' label={`Copy ${what}`} onClick={() => copy()}>
      {isNamed ? `Copy ${what}` : 'Copy'}
    </Button>
  )
}

async function copyText (text: string): Promise<boolean> {
  // Pages without TLS have no clipboard.
  return await navigator.clipboard?.writeText(text).then(() => true, () => false) ?? false
}
