import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from './documents.ts'
import { randomPort, type ServerCommand } from './servers.ts'

/** nginx with one worker, serving the pages as files. Everything that it writes is in its own folder. */
export function nginxServer (program: string, parent: string, pages: readonly Page[]): ServerCommand {
  const port = randomPort() // nginx reads no port from the environment
  const folder = join(parent, 'nginx')
  const root = join(folder, 'root', 'landing_pages')
  mkdirSync(root, { recursive: true })
  for (const page of pages) writeFileSync(join(root, page.publicId), page.text)
  const configuration = join(folder, 'nginx.conf')
  writeFileSync(
    configuration,
    `
    daemon off;
    worker_processes 1;
    pid ${folder}/pid;
    error_log stderr;
    events { worker_connections 4096; }
    http {
      access_log off;
      sendfile on;
      tcp_nopush on;
      open_file_cache max=1000;
      keepalive_requests 1000000000;
      default_type 'application/json; charset=utf-8';
      ${
      ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) =>
        `${name}_temp_path ${folder}/${name};`
      ).join('\n      ')
    }
      server {
        listen 127.0.0.1:${port};
        root ${folder}/root;
      }
    }
  `
  )
  // Started as root, nginx reads files as another user.
  for (const path of [folder, join(folder, 'root'), root]) chmodSync(path, 0o755)
  return {
    name: 'nginx',
    command: [program, '-p', folder, '-c', configuration, '-e', 'stderr'],
    env: {},
    port
  }
}
