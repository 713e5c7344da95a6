// The public interface of the module.

export { deleteAnyAsset } from './asset-repository.ts'
export { areForeign, default as assetCleanup, removeAssetsOf, removeFile, wrongOwnerMessage,
  type RemovedAssets } from './cleanup.ts'
export { assetRoutes } from './routes.ts'
export { uploadsRoutes } from './serve/routes.ts'
export { DiskStore } from './storage/disk-store.ts'
export type { FileStore } from './storage/file-store.ts'
export { default as fileStore, openFileStore, type StorePlace } from './storage/plugin.ts'
export { isStorageKey } from './storage/storage-key.ts'
export { default as variants } from './variants/plugin.ts'
