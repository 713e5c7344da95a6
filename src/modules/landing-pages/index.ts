// The public interface of the module.

export { deleteAnyPage, deletePages } from './trash-repository.ts'
export { listPagesOf } from './landing-page-repository.ts'
export { default as pageCleanup } from './cleanup.ts'
export { manageRoutes } from './manage/routes.ts'
export { ALL_PAGES, BATCH_EVENT, CDN_AGAIN_TARGET, CDN_TARGET, CDN_TARGETS, CLAIM_OR_FREEZE, CLAIM_SECONDS,
  IS_NEXT, IS_SETTLED, measureOverdue, PAGE_EVENTS, settleMessages, UNCONFIRMED_SECONDS,
  untilUnique } from './outbox-repository.ts'
export { default as documentCache } from './public/plugin.ts'
export { default as schedules } from './schedules.ts'
export { previewLinkRoutes } from './previews/link-routes.ts'
export { previewRoutes } from './previews/read-routes.ts'
export { publicPreflight, publicRoutes } from './public/routes.ts'
export { DOCUMENT_SCRIPTS } from './public/document-scripts.ts'
export { DOCUMENT_CHANNEL, publishDeletion } from './public/shared-documents.ts'
export { default as assetReferences, findReferencesNow } from './references/asset-references.ts'
export { MAX_REFERENCES, type AssetReferences } from './references/reference-repository.ts'
