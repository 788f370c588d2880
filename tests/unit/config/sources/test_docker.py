from __future__ import annotations

import pytest

from discovery_engine.config.settings import RemoteTransport, StdioTransport
from tests.unit.config.sources.conftest import Machine

FOLDER = "~/.docker/mcp"
REGISTRY = """
registry:
  wiki: {ref: "", config: {space: team}}
  files: {ref: ""}
  search: {ref: ""}
  bundle: {ref: ""}
  unknown: {ref: ""}
"""
CATALOG = """
registry:
  wiki:
    description: Pages of a wiki
    type: server
    image: mcp/wiki@sha256:abc
    command: [--transport=stdio, "--space={{wiki.space}}"]
    secrets: [{name: wiki.token, env: WIKI_TOKEN, example: "<token>"}, {name: wiki.unused}]
    env:
      - {name: WIKI_URL, value: "{{ wiki.url }}"}
      - {name: WIKI_USER, value: "{{wiki.user}}"}
      - {name: WIKI_MODE, value: "${mode}"}
    disableNetwork: true
    user: "1000"
  files:
    type: server
    image: mcp/files
    volumes: ["{{files.paths|volume|into}}", "{{files.cache}}:/cache"]
    command: ["{{files.paths|volume-target|into}}"]
  search:
    type: remote
    remote:
      transport_type: streamable-http
      url: https://search.example/mcp
      headers: {Authorization: "Bearer ${SEARCH_TOKEN}"}
  bundle: {type: poci}
"""
CONFIG = """
wiki: {url: https://wiki.example}
files: {paths: [/srv/a, /srv/b], nested: {deep: 1}}
"""


@pytest.fixture
def toolkit(machine: Machine) -> Machine:
    machine.write(
        {
            f"{FOLDER}/registry.yaml": REGISTRY,
            f"{FOLDER}/config.yaml": CONFIG,
            f"{FOLDER}/tools.yaml": "wiki: [read, list]",
            f"{FOLDER}/catalogs/docker-mcp.yaml": CATALOG,
        }
    )
    return machine


@pytest.mark.requirement("SRC-30")
def test_each_enabled_server_is_started_as_the_catalogue_describes_it(toolkit: Machine) -> None:
    imported = toolkit.read("docker-mcp")

    wiki, files, search = (server.transport for server in imported.servers)
    assert wiki == StdioTransport(
        "docker",
        (
            *("run", "-i", "--rm", "--init", "--network", "none", "-u", "1000"),
            *("-e", "WIKI_TOKEN", "-e", "WIKI_URL", "-e", "WIKI_MODE"),
            *("mcp/wiki@sha256:abc", "--transport=stdio", "--space=team"),
        ),
        {
            "WIKI_TOKEN": "${WIKI_TOKEN}",
            "WIKI_URL": "https://wiki.example",
            "WIKI_MODE": "$${mode}",
        },
    )
    assert files == StdioTransport(
        "docker",
        (
            *("run", "-i", "--rm", "--init", "-v", "/srv/a:/srv/a", "-v", "/srv/b:/srv/b"),
            *("mcp/files", "/srv/a", "/srv/b"),
        ),
    )
    assert search == RemoteTransport(
        "https://search.example/mcp", {"Authorization": "Bearer ${SEARCH_TOKEN}"}, "http"
    )
    assert imported.servers[0].description == "Pages of a wiki"


def test_an_image_that_would_be_an_option_is_not_started(toolkit: Machine) -> None:
    hostile = "registry: {wiki: {image: --privileged, command: [x]}}"
    toolkit.write({f"{FOLDER}/catalogs/docker-mcp.yaml": hostile})

    assert toolkit.read("docker-mcp").servers == ()


@pytest.mark.requirement("SRC-30")
@pytest.mark.parametrize("name", ["mcp-servers.json", "registry.yaml", "mcp-toolkit.db"])
def test_a_named_file_that_is_missing_is_reported_and_starts_no_gateway(
    machine: Machine, name: str
) -> None:
    imported = machine.read("docker-mcp", f"{FOLDER}/{name}")

    assert imported.servers == ()
    [warning] = imported.warnings
    assert warning.message.startswith("it cannot be read: ")
    assert warning.origin.file.endswith(name)
