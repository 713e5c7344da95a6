// The public interface of the module.

export { deleteAnyAsset } from './asset-repository.ts'
export { default as assetCleanup, removeAssetsOf, removeFile, type RemovedAssets } from './cleanup.ts'
export { assetRoutes } from './routes.ts'
export { uploadsRoutes } from './serve/routes.ts'
export type { FileStore } from './storage/file-store.ts'
export { default as fileStore } from './storage/plugin.ts'
export { default as variants } from './variants/plugin.ts'
