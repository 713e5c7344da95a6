import { render } from 'preact'
import { App } from './app/app.tsx'
import { keepFocus } from './core/keep-focus.ts'
import './styles/tokens.css'
import './styles/base.css'
import './styles/app.css'
import './styles/account.css'
import './styles/assets.css'
import './styles/page.css'
import './styles/pages.css'
import './styles/forced-colors.css'

const parent = document.getElementById('console') as HTMLElement
parent.replaceChildren()
render(<App />, parent)
keepFocus()
