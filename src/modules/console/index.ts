// The public interface of the module.

export { consoleRoutes } from './routes.ts'
