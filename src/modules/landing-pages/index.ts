// The public interface of the module.

export { manageRoutes } from './manage/routes.ts'
export { default as documentCache } from './public/plugin.ts'
export { publicPreflight, publicRoutes } from './public/routes.ts'
export { DOCUMENT_SCRIPTS } from './public/shared-documents.ts'
