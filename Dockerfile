# The first stage builds with the development dependencies, the second one runs without them. A digest always
# names the same image; docs/operations.md says how to renew it.
FROM node:24.21.0-slim@sha256:d6aa754f16b3197301076f047b5def2f02ea1dbbc2ca920407d46d7ec7f87b20 AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY packages/client/package.json packages/client/
COPY packages/json-text/package.json packages/json-text/
COPY console/package.json console/
RUN npm ci
COPY tsconfig.json ./
COPY prisma ./prisma
COPY packages ./packages
COPY console ./console
COPY src ./src
# The context has no .git: docker build --build-arg GIT_COMMIT=$(git rev-parse --short=12 HEAD)
ARG GIT_COMMIT
RUN npm run build
# Omitting "optional" drops the Prisma CLI (an optional peer of its client), but must keep the binaries of sharp;
# "no-workspaces" drops the links to the packages of this repository.
RUN cp -r node_modules/@img /tmp/sharp && npm prune --omit=dev --omit=optional --no-workspaces && cp -r /tmp/sharp/. node_modules/@img/
# Nothing needs these at run time: type declarations, source maps, query compilers of other databases (90 MB).
RUN find node_modules -type f \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' \) -delete
RUN find node_modules/@prisma/client/runtime -type f -name 'query_compiler_*' ! -name 'query_compiler_fast_bg.postgresql.*' -delete

FROM node:24.21.0-slim@sha256:d6aa754f16b3197301076f047b5def2f02ea1dbbc2ca920407d46d7ec7f87b20
ENV NODE_ENV=production HOST=0.0.0.0
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/prisma ./prisma
COPY --from=build /app/dist ./dist
COPY --from=build /app/packages/client/dist ./packages/client/dist
# A new volume takes the owner and the mode of its folder. An nginx with the same volume may open uploads by their
# names (711), but nobody can list them. Everything else in the image may be read-only.
RUN mkdir -m 700 data && mkdir -m 711 uploads && chown node:node data uploads
USER node
VOLUME ["/app/data", "/app/uploads"]
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT || 3000}/health/live`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# Node receives signals itself. As process 1 it also needs "docker run --init", or "init" in Compose.
ENTRYPOINT ["node", "dist/cli/landfall.js"]
CMD ["serve"]
