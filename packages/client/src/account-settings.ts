import type { components } from './api.ts'
import { unwrap, type Api, type CallOptions } from './responses.ts'

/** The settings of the account, such as the address of its website. */
export type AccountSettings = components['schemas']['AccountSettings']

export interface AccountSettingsCalls {
  /** Returns the settings of the account. */
  getSettings(options?: CallOptions): Promise<AccountSettings>
  /** Replaces the settings of the account. */
  putSettings(settings: AccountSettings, options?: CallOptions): Promise<AccountSettings>
}

export function createAccountSettings (api: Api): AccountSettingsCalls {
  return {
    async getSettings ({ signal } = {}) {
      return (await unwrap(api.GET('/auth/settings', { signal }))).data
    },
    async putSettings (body, { signal } = {}) {
      return (await unwrap(api.PUT('/auth/settings', { body, signal }))).data
    }
  }
}
