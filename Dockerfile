# make image
# Indexes of all platforms; a new digest is a commit of its own.
ARG BUILD_IMAGE=node:24.21.0-bookworm-slim@sha256:0e0ff40c39bc087845bfb27465a0df4ea419520094bc35842ff83dd8cbe6f9b6
ARG RUNTIME_IMAGE=gcr.io/distroless/nodejs24-debian12:nonroot@sha256:14d42e2511532589a7c7e01a753667a74fcc96266e137e8125006b87b0c32d0a

# What is built runs on any platform, so that nothing is emulated for another one.
FROM --platform=${BUILDPLATFORM} ${BUILD_IMAGE} AS build
WORKDIR /src
COPY package.json package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json ./
COPY README.md CHANGELOG.md CODE_OF_CONDUCT.md CONTRIBUTING.md GOVERNANCE.md MAINTAINERS.md ROADMAP.md SECURITY.md ./
COPY docs docs
COPY operator operator
COPY scripts scripts
RUN node scripts/bundle.ts && node scripts/sbom.ts dist/sbom.cdx.json

# No shell, no package manager, not root. The file system may be read-only: only DATA_DIR and /tmp are written.
FROM ${RUNTIME_IMAGE}
WORKDIR /app
COPY --from=build /src/dist /app
USER 65532:65532
EXPOSE 8080
VOLUME /var/lib/vbilling-data
# The second wall behind the reader of tenant kubeconfigs: whatever runs in here starts no process, loads no
# inspector, and reads and writes only what is listed. LevelDB is native code, hence the addons; the answers of
# tenants' own APIs are parsed in a thread under a memory limit, hence the worker, which is bound by the same list.
ENTRYPOINT ["/nodejs/bin/node", \
  "--permission", \
  "--allow-addons", \
  "--allow-worker", \
  "--allow-fs-read=/app", \
  "--allow-fs-read=/etc", \
  "--allow-fs-read=/var/run/secrets", \
  "--allow-fs-read=/var/lib/vbilling-data", \
  "--allow-fs-read=/tmp", \
  "--allow-fs-write=/var/lib/vbilling-data", \
  "--allow-fs-write=/tmp", \
  "/app/main.js"]
