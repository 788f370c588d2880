# The gateway and its command line:
#
#   docker build --tag discovery .
#   docker run --rm --volume ./discovery.yaml:/etc/discovery/discovery.yaml:ro --volume data:/var/lib/discovery \
#     --publish 127.0.0.1:8000:8000 --read-only --tmpfs /tmp --env DISCOVERY_TOKEN discovery
#
# Agents use http://127.0.0.1:8000/mcp with the token of DISCOVERY_TOKEN. Programs of servers start with uvx; one that
# needs another program, such as npx, needs an image of its own that begins with `FROM discovery`.

FROM python:3.13-slim AS build
# npm brings the modules of the page.
RUN apt-get update && apt-get install --yes --no-install-recommends npm
COPY . /src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /dist /src

FROM python:3.13-slim
# postgres: gateways that share a registry.
ARG EXTRAS=postgres
RUN useradd --create-home discovery && install -d -o discovery /var/lib/discovery
RUN pip install --no-cache-dir uv
RUN --mount=from=build,source=/dist,target=/dist pip install --no-cache-dir "$(echo /dist/*.whl)[$EXTRAS]"
USER discovery
ENV DISCOVERY_CONFIG=/etc/discovery/discovery.yaml DISCOVERY_DATA_DIR=/var/lib/discovery HOME=/var/lib/discovery
VOLUME /var/lib/discovery
EXPOSE 8000
HEALTHCHECK --start-period=20s --interval=10s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health')"]
ENTRYPOINT ["discovery"]
CMD ["serve", "--http", "0.0.0.0:8000", "--allow-remote", "--allowed-host", "localhost"]
