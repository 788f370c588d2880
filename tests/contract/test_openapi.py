"""Services without an MCP server: the operations of an OpenAPI document are tools."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.discovery import Discovery
from tests.engines import Folder
from tests.forked import Preloaded
from tests.rows import rows
from tests.servers.web_server import WebAnswer, WebRequest, WebServer, json_answer, web_server

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-31")]

PET = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "toys": {"type": "array", "items": {"type": "string"}},
        "mother": {"$ref": "#/components/schemas/Pet"},
    },
}
OK = {"responses": {"200": {"description": "It is done."}}}
LIMIT = {"name": "limit", "in": "query", "schema": {"type": "integer"}}
COLORS = {"name": "color", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}}
TRACE = {"name": "X-Trace", "in": "header", "schema": {"type": "string"}}
ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
CONTENT = {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}
PETS: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "/v1"}],
    "components": {"schemas": {"Pet": PET}, "parameters": {"Limit": LIMIT}},
    "paths": {
        "/pets": {
            "get": {
                "summary": "List all pets",
                "parameters": [{"$ref": "#/components/parameters/Limit"}, COLORS, TRACE],
                **OK,
            },
            "post": {"operationId": "add_pet", "requestBody": {"content": CONTENT}, **OK},
        },
        "/pets/{id}": {"parameters": [ID], "delete": {"operationId": "sell_pet", **OK}},
        "/sick": {"get": OK},
    },
}


def answer(request: WebRequest) -> WebAnswer:
    match request.path:
        case "/openapi.json":
            return json_answer(PETS)
        case "/v1/sick":
            return json_answer({"message": "the vet is on holiday"}, 503)
    return json_answer({"path": request.path, "got": request.body.decode()})


@pytest.fixture
def service() -> Iterator[WebServer]:
    with web_server(answer) as server:
        yield server


@pytest.fixture
def home(tmp_path: Path, forked: Preloaded) -> Discovery:
    (tmp_path / "discovery.yaml").write_text("servers: {}\n")
    return Discovery(tmp_path, forked)


def configure(folder: Folder, entry: dict[str, Any], **sections: Any) -> None:
    folder.config.write_text(json.dumps({"servers": {"pets": entry}, **sections}))


async def test_operations_are_tools_under_the_owners_rules_and_are_called_as_described(
    folder: Folder, service: WebServer
) -> None:
    rules = [{"annotations": {"destructiveHint": True}, "enabled": False}]
    configure(folder, {"openapi": f"{service.url}/openapi.json"}, toolRules=rules)

    async with folder.open() as engine:
        await engine.refresh()
        search = await engine.search("add a pet")
        listed = await engine.execute(
            "pets", "List_all_pets", {"limit": 2, "color": ["red", "blue"], "X-Trace": "t"}
        )
        pet = {"name": "Rex", "toys": ["ball"], "mother": {"name": "Eve"}}
        added = await engine.execute("pets", "add_pet", pet)
        failed = await engine.execute("pets", "GET_sick", {})
        entries = {e.tool.key.tool: e.is_visible for e in engine.view.catalog}

    assert search.hits[0].entry.tool.name == "add_pet"
    assert entries == {"GET_sick": True, "List_all_pets": True, "add_pet": True, "sell_pet": False}
    by_path = {request.target: request for request in service.asked}
    assert by_path["/v1/pets?limit=2&color=red&color=blue"].headers["x-trace"] == "t"
    assert listed["structuredContent"]["path"] == "/v1/pets"
    assert json.loads(added["structuredContent"]["got"]) == pet
    assert failed["isError"]
    assert "the vet is on holiday" in failed["content"][0]["text"]


def test_a_reference_that_leads_nowhere_is_named_with_its_operation(home: Discovery) -> None:
    lost = [f"#/components/{place}" for place in ("parameters/a~1b", "schemas/Far", "schemas/Toy")]
    far = {"properties": {"far": {"$ref": lost[1]}}, "example": {"$ref": "#/fine"}}
    parameters = [{"$ref": lost[0]}, {"name": "toy", "in": "query", "schema": {"$ref": lost[2]}}]
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Near"}}}
    operation = {"parameters": parameters, "requestBody": {"content": content}, **OK}
    components = {"schemas": {"Pet": PET, "Near": far}, "parameters": {"Limit": LIMIT}}
    paths = {**PETS["paths"], "/toys": {"post": {"operationId": "add_toy", **operation}}}
    document = {**PETS, "components": components, "paths": paths}
    entry = {"openapi": "pets.json", "url": "http://pets.example"}
    (home.home / "discovery.yaml").write_text(json.dumps({"servers": {"pets": entry}}))
    (home.home / "pets.json").write_text(json.dumps(document))

    home("review", "servers", "pets", "--yes")
    home("refresh")
    checks = home("doctor", "--json").json["checks"]
    added, other = (
        home("inspect", f"pets:{name}", "--json").json["tool"]["description"]
        for name in ("add_toy", "List_all_pets")
    )

    [check] = [check for check in checks if check["code"] == "DEFINITION_INVALID"]
    assert check["message"] == f"add_toy lacks {', '.join(lost)}"
    assert "Without #/components/parameters/a~1b, " in added
    assert "Without" not in other


def command_lines() -> list[bytes]:
    return [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]


async def test_secrets_of_a_service_are_sent_to_it_and_stand_on_no_command_line(
    folder: Folder, service: WebServer
) -> None:
    entry = {
        "openapi": "pets.json",
        "url": f"{service.url}/v2?key=${{KEY}}",
        "headers": {"Authorization": "Bearer ${TOKEN}"},
    }
    configure(folder, entry)
    (folder.path / "pets.json").write_text(json.dumps(PETS))

    async with folder.open(environ={"KEY": "key-of-pets", "TOKEN": "token-of-pets"}) as engine:
        await engine.refresh()
        await engine.execute("pets", "sell_pet", {"id": "a/b"})
        lines = command_lines()

    [request] = service.asked
    assert request.target == "/v2/pets/a%2Fb?key=key-of-pets"
    assert request.headers["authorization"] == "Bearer token-of-pets"
    assert any(b"openapi_server" in line for line in lines)
    assert not any(b"-of-pets" in line for line in lines)


def run(document: str, folder: Path, **environment: str) -> str:
    """What the program of an entry writes when it cannot serve a document."""
    program = [sys.executable, "-m", "discovery_engine.upstream.openapi_server", document]
    done = subprocess.run(
        check=False,
        args=program,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    return done.stderr


def test_a_document_that_cannot_be_served_is_refused_with_place_and_cure(tmp_path: Path) -> None:
    other = {**PETS, "servers": [{"url": "https://other.example"}]}
    cases = {
        "no document": ("[1, 2]", "no `openapi: 3…` at its top"),
        "broken text": ("a: [b", "line 2, column 1"),
        "older version": ('swagger: "2.0"', "convert it to OpenAPI 3"),
        "without operations": (json.dumps({**PETS, "paths": {}}), "`paths` is missing or empty"),
        "without address": (json.dumps(PETS), "add `url: https://…` to the entry"),
        "headers elsewhere": (json.dumps(other), "add `url: https://other.example` to the entry"),
        "broken operation": (
            json.dumps({**PETS, "paths": {"/a": {"get": {"parameters": [{"name": 1}]}}}}),
            "at paths./a.get.parameters.0",
        ),
    }
    messages = {}
    for name, (text, _) in cases.items():
        path = tmp_path / "document"
        path.write_text(text)
        is_elsewhere = name == "broken operation"
        url = {"OPENAPI_URL": "https://pets.example"} if is_elsewhere else {}
        messages[name] = run(str(path), tmp_path, OPENAPI_HEADER_Authorization="x", **url)

    assert {name for name, (_, cure) in cases.items() if cure not in messages[name]} == set()
    assert "No such file" in run("nothing.json", tmp_path)
    assert not any("Traceback" in message for message in messages.values())


def test_without_the_extra_the_command_that_installs_it_is_given(tmp_path: Path) -> None:
    code = "import runpy, sys; sys.modules['fastmcp'] = None; sys.argv = ['x', 'pets.json'];"
    code += " runpy.run_module('discovery_engine.upstream.openapi_server', run_name='__main__')"
    done = subprocess.run(
        check=False,
        args=[sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert "pip install 'mcp-discovery-engine[openapi]'" in done.stderr


@rows(
    ("key", "value"),
    [("command", "prog"), ("args", ["-v"]), ("env", {"A": "b"}), ("oauth", {"clientId": "x"})],
)
def test_keys_of_other_kinds_of_servers_are_refused(
    home: Discovery, key: str, value: object
) -> None:
    config = {"servers": {"pets": {"openapi": "pets.json", key: value}}}
    (home.home / "discovery.yaml").write_text(json.dumps(config))

    assert f"servers.pets.{'openapi' if key == 'command' else key}" in home("config", "check").out


def test_an_added_entry_is_written_as_it_was_given_with_its_secrets_stored(
    home: Discovery,
) -> None:
    options = ["--url", "https://pets.example/v1", "--header", "Authorization: Bearer abcdef123456"]
    done = home("add", "pets", "--yes", "--openapi", "/pets.json", *options)

    assert done.code == 0
    shown = home("config", "show", "--json").json["configuration"]["servers"]["pets"]
    assert shown["openapi"] == "/pets.json"
    assert shown["url"] == "https://pets.example/v1"
    assert "${secret:pets/" in shown["headers"]["Authorization"]
    assert "abcdef123456" not in home("config", "show").out
