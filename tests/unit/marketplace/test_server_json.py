from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discovery_engine.marketplace import bounds
from discovery_engine.marketplace.entry import EntryOrigin, Input, MarketplaceEntry, OfferedTool
from discovery_engine.marketplace.server_json import MalformedEntryError, parse_server
from tests.rows import rows

ORIGIN = EntryOrigin("official", "official")
OFFICIAL = "io.modelcontextprotocol.registry/official"


def parse(document: Any, meta: Any = None) -> MarketplaceEntry:
    return parse_server(document, origin=ORIGIN, meta=meta)


def npm(**members: Any) -> dict[str, Any]:
    return {"registryType": "npm", "identifier": "@acme/files", "version": "1.2.0"} | members


def server(*packages: Any, **members: Any) -> dict[str, Any]:
    return {"name": "io.github.acme/files", "version": "1.2.0", "packages": [*packages]} | members


def offered(**members: Any) -> Any:
    """The one package of a server whose package has these members."""
    [package] = parse(server(npm(**members))).packages
    return package


def refusal(*packages: Any) -> str:
    entry = parse(server(*packages))
    assert entry.packages == ()
    [refused] = entry.refused
    return refused.reason


@pytest.mark.requirement("MKT-1")
def test_a_document_in_camel_case_and_one_in_snake_case_give_the_same_entry() -> None:
    argument = {"type": "positional", "valueHint": "folder", "isRequired": True}
    variable = {"name": "FILES_KEY", "isSecret": True, "isRequired": True, "description": "Key"}
    old_argument = {"type": "positional", "value_hint": "folder", "is_required": True}
    old_variable = {
        "name": "FILES_KEY",
        "is_secret": True,
        "is_required": True,
        "description": "Key",
    }
    remote = {"type": "streamable-http", "url": "https://acme.example/mcp"}
    old_remote = {"transport_type": "streamable", "url": "https://acme.example/mcp"}
    new = {
        **server(
            npm(runtimeHint="npx", packageArguments=[argument], environmentVariables=[variable])
        ),
        "remotes": [remote],
        "websiteUrl": "https://acme.example",
        "_meta": {OFFICIAL: {"status": "active", "publishedAt": "2026-01-02T03:04:05Z"}},
    }
    old = {
        "name": "io.github.acme/files",
        "status": "active",
        "version_detail": {"version": "1.2.0"},
        "website_url": "https://acme.example",
        "packages": [
            {
                "registry_name": "npm",
                "name": "@acme/files",
                "version": "1.2.0",
                "runtime_hint": "npx",
                "package_arguments": [old_argument],
                "environment_variables": [old_variable],
            }
        ],
        "remotes": [old_remote],
        "_meta": {OFFICIAL: {"published_at": "2026-01-02T03:04:05Z"}},
    }

    assert parse(old) == parse(new)
    [package] = parse(new).packages
    assert package.environment == (
        Input("FILES_KEY", "environment", description="Key", is_required=True, is_secret=True),
    )
    assert package.package_arguments == (Input("folder", "positional", is_required=True),)


@pytest.mark.requirement("MKT-1")
def test_what_the_registry_adds_beside_a_document_is_its_status_and_its_dates() -> None:
    official = {
        "status": "deprecated",
        "statusMessage": "use com.acme/files",
        "publishedAt": "2026-01-02T03:04:05Z",
        "updatedAt": "2026-02-03T04:05:06Z",
    }

    entry = parse(server(), {OFFICIAL: official})

    assert (entry.status, entry.status_message) == ("deprecated", "use com.acme/files")
    assert entry.published_at == "2026-01-02T03:04:05Z"
    assert entry.updated_at == "2026-02-03T04:05:06Z"
    assert entry.publisher == "github.com/acme"


@pytest.mark.requirement("MKT-1")
@rows(
    ("registry_type", "identifier", "runtime"),
    [
        ("npm", "@acme/files", "npx"),
        ("pypi", "acme-files", "uvx"),
        ("oci", "ghcr.io/acme/files", "docker"),
        ("nuget", "Acme.Files", "dnx"),
        ("mcpb", "https://acme.example/files-1.2.0.mcpb", ""),
    ],
)
def test_a_missing_runtime_hint_is_the_usual_one_of_the_registry(
    registry_type: str, identifier: str, runtime: str
) -> None:
    package = offered(registryType=registry_type, identifier=identifier)

    assert (package.registry_type, package.runtime_hint) == (registry_type, runtime)


@pytest.mark.requirement("MKT-1")
@rows("hint", ["sh", "bash -c", "/bin/sh", "npx; touch M", "../npx"])
def test_a_runtime_hint_that_is_no_known_runtime_counts_for_nothing(hint: str) -> None:
    assert offered(runtimeHint=hint).runtime_hint == "npx"


@pytest.mark.requirement("MKT-1")
@rows(
    ("members", "image", "version", "integrity"),
    [
        ({"identifier": "acme/files"}, "acme/files", "", ""),
        ({"identifier": "docker.io/acme/files:1.2.0"}, "docker.io/acme/files", "1.2.0", ""),
        ({"identifier": "acme/files", "version": "1.2.0"}, "acme/files", "1.2.0", ""),
        (
            {"identifier": "acme/files", "version": "2", "registryBaseUrl": "https://ghcr.io"},
            "ghcr.io/acme/files",
            "2",
            "",
        ),
        (
            {"identifier": f"localhost:5000/files:1@sha256:{'a' * 64}"},
            "localhost:5000/files",
            "1",
            f"sha256:{'a' * 64}",
        ),
        ({"identifier": "acme/files:latest"}, "acme/files", "", ""),
        ({"identifier": "acme/files:v1.2.0", "version": "1.2.0"}, "acme/files", "v1.2.0", ""),
        ({"identifier": "acme/files:1.2.0", "version": "1.2.0"}, "acme/files", "1.2.0", ""),
        ({"identifier": "acme/files:latest", "version": "1.2.0"}, "acme/files", "1.2.0", ""),
        (
            {"identifier": f"acme/files@sha256:{'a' * 64}", "version": "1.2.0"},
            "acme/files",
            "1.2.0",
            f"sha256:{'a' * 64}",
        ),
    ],
)
def test_an_image_has_its_tag_and_digest_apart_and_may_have_neither(
    members: dict[str, str], image: str, version: str, integrity: str
) -> None:
    [package] = parse(server({"registryType": "oci"} | members)).packages

    assert (package.identifier, package.version, package.integrity) == (image, version, integrity)


@pytest.mark.requirement("MKT-1")
def test_arguments_keep_their_order_kind_choices_and_repetition() -> None:
    package = offered(
        packageArguments=[
            {"type": "positional", "value": "serve"},
            {"type": "named", "name": "--port", "default": 8080, "format": "number"},
            {"type": "named", "name": "--mode", "choices": ["read", "write"], "default": "read"},
            {"type": "positional", "valueHint": "folder", "isRepeated": True, "format": "filepath"},
        ],
        runtimeArguments=[{"type": "named", "name": "--yes"}],
    )

    assert package.package_arguments == (
        Input("", "positional", "serve"),
        Input("--port", "named", default="8080", format="number"),
        Input("--mode", "named", default="read", choices=("read", "write")),
        Input("folder", "positional", is_repeated=True, format="filepath"),
    )
    assert package.runtime_arguments == (Input("--yes", "named"),)
    assert package.package_arguments[0].asked == ()


@pytest.mark.requirement("MKT-1")
def test_the_variables_of_a_template_are_what_a_person_is_asked_for() -> None:
    value = "--mount=type=bind,src={source},dst={target},literal={other}"
    source = {"description": "Folder", "isRequired": True, "format": "filepath"}
    package = offered(
        runtimeArguments=[
            {
                "type": "positional",
                "value": value,
                "variables": {"source": source, "target": {"default": "/data"}, "unused": {}},
            }
        ]
    )

    [argument] = package.runtime_arguments
    assert argument.value == value
    assert argument.asked == (
        Input("source", "variable", description="Folder", is_required=True, format="filepath"),
        Input("target", "variable", default="/data"),
    )


@pytest.mark.requirement("MKT-1")
def test_a_place_in_a_remote_address_that_nobody_declared_is_required() -> None:
    url = "https://{tenant}.acme.example/{region}/mcp"
    remote = {
        "type": "streamable-http",
        "url": url,
        "variables": {"region": {"choices": ["eu", "us"], "default": "eu"}},
        "headers": [{"name": "X-Key", "isSecret": True, "isRequired": True}],
    }

    [found] = parse(server(remotes=[remote])).remotes

    assert found.url == url
    assert found.variables == (
        Input("region", "variable", default="eu", choices=("eu", "us")),
        Input("tenant", "variable", is_required=True),
    )
    assert found.headers == (Input("X-Key", "header", is_required=True, is_secret=True),)


@pytest.mark.requirement("MKT-1")
@rows(
    "broken",
    [
        pytest.param({"registryType": "cargo"}, id="unknown registry"),
        pytest.param({"registryType": None}, id="no registry"),
        pytest.param({"identifier": "./evil"}, id="folder"),
        pytest.param({"identifier": "attacker/pwn"}, id="repository"),
        pytest.param({"identifier": "-c"}, id="option"),
        pytest.param({"identifier": "x; touch M"}, id="shell"),
        pytest.param({"identifier": "foo\n"}, id="line end"),
        pytest.param({"identifier": "f\u043eo"}, id="Cyrillic letter"),
        pytest.param({"identifier": "a" * 5000}, id="long"),
        pytest.param({"identifier": {"a": 1}}, id="object for text"),
        pytest.param({"version": "^1.2.0"}, id="range"),
        pytest.param({"version": "1.x"}, id="open version"),
        pytest.param({"version": "1.2.0 || 2"}, id="choice of versions"),
        pytest.param({"version": "--registry=http://evil"}, id="option for version"),
        pytest.param({"packageArguments": "x"}, id="text for list"),
        pytest.param({"packageArguments": ["x"]}, id="text for argument"),
        pytest.param({"packageArguments": [{"type": "other"}]}, id="unknown argument"),
        pytest.param({"packageArguments": [{"type": "named"}]}, id="flag without a name"),
        pytest.param(
            {"packageArguments": [{"type": "positional", "value": "a\0b"}]}, id="NUL in argument"
        ),
        pytest.param(
            {"packageArguments": [{"type": "positional", "value": "a"}] * 101}, id="many arguments"
        ),
        pytest.param({"environmentVariables": [{"name": "A=B"}]}, id="equals sign in name"),
        pytest.param({"environmentVariables": [{"name": "A"}, {"name": "A"}]}, id="name twice"),
        pytest.param(
            {"environmentVariables": [{"name": "A", "isSecret": "yes"}]}, id="text for a flag"
        ),
        pytest.param({"environmentVariables": [{"name": "A", "choices": "b"}]}, id="choices"),
        pytest.param({"transport": {"type": "carrier-pigeon"}}, id="transport"),
        pytest.param({"fileSha256": "abc"}, id="hash"),
    ],
)
def test_a_malformed_package_is_refused_alone_and_named_with_its_reason(
    broken: dict[str, Any],
) -> None:
    entry = parse(server(npm(**broken), npm(identifier="good")))

    assert [package.identifier for package in entry.packages] == ["good"]
    [refused] = entry.refused
    assert refused.reason
    assert len(refused.reason) < 200


@pytest.mark.requirement("MKT-1")
@rows(
    "url",
    [
        *("javascript:alert(1)", "file:///etc/passwd", "https://", "https://user:key@acme.example"),
        *("https:// acme.example", "ftp://acme.example", "--x", "https://a\\b", ""),
    ],
)
def test_a_remote_that_has_no_web_address_is_refused(url: str) -> None:
    entry = parse(server(remotes=[{"type": "sse", "url": url}]))

    assert entry.remotes == ()
    assert len(entry.refused) == 1


@pytest.mark.requirement("MKT-1")
@rows("address", ["javascript:alert(1)", "data:text/html,x", "https://a b"])
def test_addresses_that_are_shown_are_of_the_web(address: str) -> None:
    entry = parse(server(websiteUrl=address, repository={"url": address}))

    assert (entry.website, entry.repository) == ("", "")


@pytest.mark.requirement("MKT-1")
@rows(
    "document",
    [None, [], "text", {}, {"name": 1}, {"name": ""}, {"name": "a b"}, {"name": "x" * 201}],
)
def test_what_has_no_usable_name_is_no_entry(document: Any) -> None:
    with pytest.raises(MalformedEntryError):
        parse(document)


@pytest.mark.requirement("MKT-1")
def test_texts_that_are_only_shown_are_cut_and_counts_are_bounded() -> None:
    tools: list[Any] = [{"name": f"t{n}", "description": "d" * 9999} for n in range(900)]
    entry = parse(
        server(description="x" * 10_000, title="y" * 10_000, tools=["first", *tools, 7]),
    )

    assert len(entry.description) == bounds.TEXT
    assert len(entry.title) == bounds.NAME
    assert entry.tools is not None
    assert len(entry.tools) == bounds.TOOLS
    assert entry.tools[0] == OfferedTool("first")
    assert len(entry.tools[1].description) == bounds.TOOL_TEXT


@pytest.mark.requirement("MKT-1")
def test_more_packages_than_are_read_is_said() -> None:
    entry = parse(server(*(npm(identifier=f"p{n}") for n in range(50))))

    assert len(entry.packages) == bounds.OFFERS
    assert "50 offers" in entry.refused[0].reason


KEYS = st.sampled_from(
    [
        *("name", "version", "packages", "remotes", "registryType", "identifier", "transport"),
        *("type", "url", "headers", "variables", "environmentVariables", "isSecret", "choices"),
        *(
            "packageArguments",
            "value",
            "default",
            "_meta",
            "repository",
            "tools",
            "status",
            OFFICIAL,
        ),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=25,
)


@pytest.mark.requirement("MKT-1")
@given(st.dictionaries(KEYS, JSON, max_size=8))
def test_any_document_is_an_entry_or_refused(document: dict[str, Any]) -> None:
    entry = parse({**document, "name": "io.github.acme/files"})

    assert entry.name == "io.github.acme/files"
    assert entry.origins == (ORIGIN,)


def test_a_refused_package_says_what_is_known() -> None:
    reason = refusal(npm(registryType="cargo"))

    assert "'cargo'" in reason
    assert "npm, pypi, oci, nuget, mcpb" in reason
