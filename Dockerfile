# The planner's HTTP service.
#
#   docker build -t toast-planner .
#   docker run -e TOAST_API_KEYS=some-long-secret -p 8080:8080 -v toast-data:/data \
#     --read-only --tmpfs /tmp toast-planner
#
# TOAST_API_KEYS is required: inside a container the service listens on every interface, and it
# refuses to do that without keys. It holds one key or several, separated by commas, each of at least
# 16 characters; the service keeps only their hashes. A file of hashed keys does as well: mount it
# and end the command with `toast serve --host 0.0.0.0 --data /data --keys FILE`.
#
# Behind a package mirror or a private certificate authority, pass pip's settings as secrets; they
# are seen by that one step and are not kept in the image (`make image` does this by itself):
#   docker build --secret id=pip_conf,src=pip.conf --secret id=ca_bundle,src=ca.pem .
#
# With the compilers inside, which `confirm` of a request asks, it is larger and has a tag of its own:
#   docker build --build-arg EXTRAS="aot aot-cuda" -t toast-planner:aot .

FROM docker.io/library/python:3.11-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
RUN python3 -m venv /opt/toast
WORKDIR /src
# Extras of pyproject.toml to install too: `aot` has the compiler of TPUs, `aot-cuda` that of GPUs.
ARG EXTRAS=""

# The dependencies have a layer of their own: a change of the sources does not fetch them again.
COPY constraints.txt pyproject.toml ./
RUN --mount=type=secret,id=pip_conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca_bundle,target=/run/secrets/ca_bundle \
    python3 -c "import os, tomllib; \
project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
extras = [project['optional-dependencies'][name] for name in os.environ.get('EXTRAS', '').split()]; \
print(*sum(extras, project['dependencies']), sep='\n')" > requirements.txt \
    && /opt/toast/bin/pip install -c constraints.txt -r requirements.txt

COPY README.md LICENSE ./
COPY analysis analysis
COPY costmodel costmodel
COPY search search
COPY toast toast
COPY service service
RUN --mount=type=secret,id=pip_conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca_bundle,target=/run/secrets/ca_bundle \
    /opt/toast/bin/pip install --no-deps .


FROM docker.io/library/python:3.11-slim
LABEL org.opencontainers.image.title="toast-planner" \
      org.opencontainers.image.description="Plans the sharding of StableHLO modules, over HTTP" \
      org.opencontainers.image.licenses="Apache-2.0"

RUN useradd --uid 10001 --create-home --home-dir /home/toast toast \
    && install -d -o toast -g toast /data /var/cache/toast
COPY --from=build /opt/toast /opt/toast
# Workers filter their calls of the kernel with it.
RUN python3 -c "import ctypes; ctypes.CDLL('libseccomp.so.2')"

# On another processor the service compiles its own kernels, so the user that serves owns the folder.
# The root may be read-only: what libraries keep for themselves goes to /tmp.
ENV PATH=/opt/toast/bin:$PATH \
    NUMBA_CACHE_DIR=/var/cache/toast \
    MPLCONFIGDIR=/tmp/matplotlib \
    XDG_CACHE_HOME=/tmp/cache \
    JAX_PLATFORMS=cpu \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

USER toast
WORKDIR /home/toast
# Compile the kernels now; on a processor unlike the builder's they are compiled at first use.
RUN python -m toast.search.kernel_cache

VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/healthz', timeout=4)"]
CMD ["toast", "serve", "--host", "0.0.0.0", "--port", "8080", "--data", "/data"]
