import { createCheckedToken, isCheckedToken } from '../../../infra/system/checked-tokens.ts'

// The token of a preview link. It has another prefix than API keys, so that neither passes for the other.

const PREFIX = 'lfp_'

export const createPreviewToken = (): string => createCheckedToken(PREFIX)

/** Whether a text has the form of a preview token, and the right checksum. */
export const isPreviewToken = (text: string): boolean => isCheckedToken(PREFIX, text)
