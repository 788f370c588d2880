"""Protocol versions: which are offered, which are taken, and what is said if none is shared."""

from __future__ import annotations

import pytest

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.errors import DiscoveryError, UnavailableError
from tests.servers.programs import call, remote_server, upstreams
from tests.servers.scripted import (
    Asked,
    Reply,
    result_of,
    scripted_http,
    scripted_program,
    usual,
)

pytestmark = pytest.mark.anyio


def refusal(code: int, message: str, data: JSONValue = None) -> JSONObject:
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0", "id": "ID", "error": error}


def accepted(version: str) -> JSONObject:
    result = result_of("initialize", {}, version=version)
    return {"jsonrpc": "2.0", "id": "ID", "result": result}


TEXT = "Bad Request: Unsupported protocol version (supported versions: 2025-06-18, 2024-11-05)"
NAMED = {
    "data.supported": (-32602, "Unsupported", {"supported": ["2024-11-05", "2025-06-18"]}),
    "requested, too": (-32602, "no", {"requested": "2025-11-25", "supported": ["2025-06-18"]}),
    "supportedVersions": (-32600, "no", {"supportedVersions": ["2030-01-01", "2025-06-18"]}),
    "in its words": (-32000, TEXT, None),
    "with its code": (-32022, "no", {"supported": ["2025-06-18"]}),
}


@pytest.mark.requirement("UPS-92")
async def test_a_server_that_names_its_versions_is_asked_again_with_the_newest_shared_one() -> None:
    wrong: list[str] = []
    bodies: dict[str, tuple[str, JSONValue | bytes]] = {
        "text": ("text/plain", TEXT.encode()),
        "json": ("application/json", {"error": {"message": "no", "versions": ["2025-06-18"]}}),
    }

    def answer(asked: Asked) -> Reply:
        if asked.method == "POST" and asked.version and asked.version != "2025-06-18":
            kind, body = bodies[asked.path.strip("/")]
            return Reply(400, body, {"content-type": kind})
        return usual(asked)

    async with upstreams() as opened:
        for name, (code, message, data) in NAMED.items():
            lines = [refusal(code, message, data), accepted("2025-06-18")]
            server = scripted_program(initialize=lines)
            try:
                assert await call(opened, server, text=name)
            except DiscoveryError as error:
                wrong.append(f"{name}: {error}")
            await opened.close(server.name)
        with scripted_http(answer) as url:
            for name in bodies:
                try:
                    assert await call(opened, remote_server(f"{url}/{name}", name=name), text="hi")
                except DiscoveryError as error:
                    wrong.append(f"HTTP 400 with {name}: {error}")

    assert wrong == []


@pytest.mark.requirement("UPS-1")
async def test_the_versions_of_other_clients_are_spoken() -> None:
    async with upstreams() as opened:
        server = scripted_program(initialize=accepted("2024-10-07"))
        listing = await opened.list_tools(server)

    assert [tool["name"] for tool in listing.tools] == ["echo"]


@pytest.mark.requirement("UPS-92")
async def test_without_a_shared_version_the_reason_names_those_of_both_sides() -> None:
    replies = {
        "answers with one of the future": accepted("2031-01-01"),
        "names one of the future": refusal(-32602, "Unsupported", {"supported": ["2031-01-01"]}),
    }
    wrong: list[str] = []

    async with upstreams() as opened:
        for name, reply in replies.items():
            with pytest.raises(UnavailableError) as caught:
                await opened.list_tools(scripted_program(initialize=reply))
            if not {"2031-01-01", "2024-10-07", "2025-11-25"} <= set(
                caught.value.reason.replace(",", "").replace(";", "").split()
            ):
                wrong.append(f"{name}: {caught.value.reason}")
            if "check that this is an MCP server" in caught.value.hint:
                wrong.append(f"{name}: {caught.value.hint}")

    assert wrong == []
