import { createContext } from 'preact'
import { useContext, useEffect, useState } from 'preact/hooks'
import { onReturn } from './visibility.ts'

/** What the service says about itself to the console. */
export interface ServiceSettings {
  /** Differs after an upgrade that changed the console. */
  readonly version: string
  /** Without a slash at the end. */
  readonly base_url: string
  readonly sign_up: 'open' | 'closed'
  readonly sends_mail: boolean
  readonly requires_confirmed_email: boolean
  readonly max_document_bytes: number
  readonly max_upload_bytes: number
  /** How long deleted pages can be restored, in days; 0 if they are removed at once. */
  readonly trash_days: number
  /** The address of the website, for accounts without one. */
  readonly preview_url: string | null
  readonly has_webhooks: boolean
}

let ownVersion: string | undefined
const LOOK_INTERVAL_MS = 5 * 60_000

export const SettingsContext = createContext<ServiceSettings | undefined>(undefined)

/** Loads the settings of the service. @throws {TypeError} when the service can't be reached */
export async function loadSettings (signal?: AbortSignal): Promise<ServiceSettings> {
  const response = await fetch(new URL('settings.json', document.baseURI), { signal: signal ?? null })
  if (!response.ok) throw new TypeError(`The settings could not be loaded: ${response.status}`)
  const settings = await response.json() as ServiceSettings
  ownVersion ??= settings.version
  return settings
}

/** Returns the version of this console; undefined before the settings were loaded. */
export const getOwnVersion = (): string | undefined => ownVersion

/** Returns the URL at which everybody can read a page. */
export const publicUrlOf = ({ base_url: baseUrl }: ServiceSettings, publicId: string): string =>
  `${baseUrl}/landing_pages/${publicId}`

/** Returns the settings of the service. */
export function useSettings (): ServiceSettings {
  const settings = useContext(SettingsContext)
  if (settings === undefined) throw new Error('The settings are not loaded yet')
  return settings
}

/** Returns whether the service has a newer console. It looks when the person comes back to the tab. */
export function useNewVersion (): boolean {
  const { version } = useSettings()
  const [isOld, setIsOld] = useState(false)
  useEffect(() => {
    const look = () => {
      loadSettings().then((now) => setIsOld(now.version !== version), () => {}) // offline, or being restarted
    }
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') look()
    }, LOOK_INTERVAL_MS)
    const stopListening = onReturn(look)
    // A part of the console is gone, because the service has another version of it.
    addEventListener('vite:preloadError', look)
    return () => {
      clearInterval(timer)
      stopListening()
      removeEventListener('vite:preloadError', look)
    }
  }, [version])
  return isOld
}
