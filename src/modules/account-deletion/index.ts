// The public interface of the module.

export { beginDeletion } from './deletion-repository.ts'
export { default as accountDeletion, finishDeletion, hidePages, resumeDeletions,
  type RemovedContent } from './plugin.ts'
export { accountDeletionRoutes } from './routes.ts'
