# syntax=docker/dockerfile:1
# Image of Umbra: the binary alone, without shell, package manager and Postgres (docker-compose.yml has one). The
# container runs as a user without rights and works on a read-only root; all data is in /data.

FROM rust:1.95-slim-bookworm AS build
# The C parts of ring, zstd, tree-sitter and jemalloc need make; the compiler is in the image already.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends make && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --locked --profile dist --features jemalloc --bin umbra --bin umbra-hook \
    && install -D --strip target/dist/umbra /out/usr/local/bin/umbra \
    && install -D --strip target/dist/umbra-hook /out/usr/local/bin/umbra-hook \
    && install --directory --owner=65532 --group=65532 /out/data

# Debian 12, as above, with the C library, certificates, and the user 65532.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /out/ /
# The server listens on all interfaces of the container, so a key is required: see auth.bootstrap_admin_key_file.
ENV UMBRA__SERVER__BIND=0.0.0.0:7817 \
    UMBRA__STORAGE__DATA_DIR=/data \
    UMBRA__STORAGE__DOWNLOAD_POSTGRES=false \
    UMBRA__LOGGING__FORMAT=json
WORKDIR /data
VOLUME ["/data"]
EXPOSE 7817
USER 65532:65532
# After SIGTERM the server drains for server.drain_timeout (25 s): set a grace period of 35 s.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s --retries=3 CMD ["/usr/local/bin/umbra", "health"]
ENTRYPOINT ["/usr/local/bin/umbra"]
CMD ["serve"]
