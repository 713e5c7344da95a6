# Builds with the development dependencies, runs without them.
FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY tsconfig.json ./
COPY prisma ./prisma
COPY src ./src
RUN npm run build
# "optional" takes the command line of Prisma along, with an editor, drivers and compilers: its client can do without.
RUN npm prune --omit=dev --omit=optional
# Types and source maps of others, and Prisma's query compilers for databases that are none of ours: 90 MB.
RUN find node_modules -type f \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' \) -delete
RUN find node_modules/@prisma/client/runtime -type f -name 'query_compiler_*' ! -name 'query_compiler_fast_bg.postgresql.*' -delete

FROM node:24-slim
ENV NODE_ENV=production HOST=0.0.0.0
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/prisma ./prisma
COPY --from=build /app/dist ./dist
# Volumes take over the owner of these folders. Nothing is written elsewhere, so the rest may be read-only.
RUN mkdir data uploads && chown node:node data uploads
USER node
VOLUME ["/app/data", "/app/uploads"]
EXPOSE 3000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT || 3000}/health/live`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# Signals reach node itself; as the first process of a container it also needs "docker run --init", or compose's "init".
ENTRYPOINT ["node", "dist/cli/landfall.js"]
CMD ["serve"]
