# MinIO where no image registry can be reached: `labctl images build --offline --minio` has built the program with Go and puts
# it into the context. As in MinIO's own image, any user id works, /data is open to all, and curl is there for the health check.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
COPY docker/apt.py /build/
RUN --mount=type=secret,id=ca \
    ["python3", "/build/apt.py", "curl"]
RUN mkdir -p -m 1777 /data
COPY docker/minio /usr/local/bin/
ARG VERSION
LABEL org.opencontainers.image.version=${VERSION} org.opencontainers.image.title="raylab: MinIO, built from its source"
USER 1000:1000
ENTRYPOINT ["/usr/local/bin/minio"]
