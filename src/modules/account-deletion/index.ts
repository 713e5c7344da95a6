// The public interface of the module.

export { finishDeletion, type RemovedContent } from './finish-deletion.ts'
export { default as accountDeletion, resumeDeletions } from './plugin.ts'
export { accountDeletionRoutes } from './routes.ts'
