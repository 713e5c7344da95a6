// The public interface of the module.

export { default as webhooks } from './plugin.ts'
export { webhookRoutes } from './routes.ts'
