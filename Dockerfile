# syntax=docker/dockerfile:1
# docker build --tag apiserver:0.1.0 .
# docker run --read-only --tmpfs /tmp --volume apiserver:/var/lib/apiserver --publish 127.0.0.1:6443:6443 apiserver:0.1.0

FROM python:3.13.11-slim-bookworm AS build
# `make release` sets it to the time of the commit.
ARG SOURCE_DATE_EPOCH
WORKDIR /src
COPY . .
# Compiled modules are not checked against the times of their sources, which `make release` rewrites.
ENV PIP_CONSTRAINT=/src/deploy/constraints.txt \
    PYTHONHASHSEED=0
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && python -m venv --without-pip /opt/apiserver \
    && python -m pip --python /opt/apiserver/bin/python install --no-cache-dir --no-compile /wheels/*.whl \
    && python -m compileall -q --invalidation-mode unchecked-hash /opt/apiserver/lib

FROM python:3.13.11-slim-bookworm
ARG SOURCE_DATE_EPOCH
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="apiserver" \
      org.opencontainers.image.description="A Kubernetes-compatible API server in Python" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="docker.io/library/python:3.13.11-slim-bookworm"

# The base image holds no compiled modules, and nobody can write them later: without this each start, and
# each health check, would compile what it imports. The directories are there so that a new volume that is
# mounted on one of them belongs to the server's user.
RUN PYTHONHASHSEED=0 python -m compileall -q --invalidation-mode unchecked-hash /usr/local/lib/python3.13 \
    && groupadd --system --gid 65532 apiserver \
    && useradd --system --uid 65532 --gid 65532 --no-create-home --home-dir /nonexistent \
        --shell /usr/sbin/nologin apiserver \
    && install --directory --owner=65532 --group=65532 --mode=0700 \
        /var/lib/apiserver /etc/apiserver/authority /etc/apiserver/serving \
    && install --directory --owner=65532 --group=65532 --mode=0755 /etc/apiserver/scrape

COPY --from=build /opt/apiserver /opt/apiserver
COPY deploy/healthcheck.py deploy/prepare.py /usr/local/share/apiserver/

ENV PATH=/opt/apiserver/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
WORKDIR /var/lib/apiserver
EXPOSE 6443
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s --start-interval=1s --retries=3 \
    CMD ["python", "-I", "/usr/local/share/apiserver/healthcheck.py"]
# What is given to `docker run` is added; a flag that is given again counts.
ENTRYPOINT ["apiserver", "--data-dir=/var/lib/apiserver", "--bind-address=0.0.0.0"]
