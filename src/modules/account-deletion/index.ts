// The public interface of the module.

export { beginDeletion } from './deletion-repository.ts'
export { finishDeletion, hidePages, type RemovedContent } from './finish-deletion.ts'
export { default as accountDeletion, resumeDeletions } from './plugin.ts'
export { accountDeletionRoutes } from './routes.ts'
