import { CopyButton } from '../../components/copy-button.tsx'
import { href } from '../../core/router.ts'
import { publicUrlOf, useSettings } from '../../core/settings.ts'

/** How a website reads the page. */
export function UseTab ({ publicId }: { readonly publicId: string }) {
  const settings = useSettings()
  const base = settings.base_url
  const url = publicUrlOf(settings, publicId)
  return (
    <section class='use' aria-label='Use'>
      <p>
        Anyone who has the address can read the page, without an account. Each version is there as soon as it
        is published. “View the page” above opens your website when{' '}
        <a href={href('account', 'site')}>your account</a> has the address of your website.
      </p>
      <Snippet title='Public URL' what='URL' text={url} link={url} />
      <Snippet title='On the command line' what='curl command' text={`curl ${url}`} />
      <Snippet
        title='In JavaScript'
        what='JavaScript'
        text={`const response = await fetch('${url}')
if (!response.ok) throw new Error(\`The page answered \${response.status}\`)
const page = await response.json()
console.log(page)`}
      />
      <Snippet
        title='With @landfall/client'
        what='client code'
        text={`import { createLandfallClient } from '@landfall/client'

const landfall = createLandfallClient({ baseUrl: '${base}' })
const { document } = await landfall.landingPages.read('${publicId}')
console.log(document)`}
      />
    </section>
  )
}

interface SnippetProps {
  readonly title: string
  readonly what: string
  readonly text: string
  readonly link?: string
}

function Snippet ({ title, what, text, link }: SnippetProps) {
  return (
    <div class='snippet panel'>
      <div class='snippet__head'>
        <h2>{title}</h2>
        <CopyButton text={text} what={what} />
      </div>
      {link === undefined
        // It may be wider than the screen, so the keyboard must be able to scroll it.
        ? <pre class='snippet__text' tabIndex={0} role='group' aria-label={title}><code>{text}</code></pre>
        : <a class='snippet__link' href={link} target='_blank' rel='noreferrer'>{text}</a>}
    </div>
  )
}
