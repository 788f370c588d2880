"""Clients of each era behind the real balancer of `examples/fleet`, and two real gateways."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client as Agent
from mcp.client.streamable_http import streamable_http_client

from discovery_engine._util.json import JSONObject
from tests.e2e.serving import fault_entry, text_of
from tests.fleet import balancer as balancers
from tests.fleet.balancer import Balancer, caddy, open_balancer
from tests.fleet.example import CADDYFILE, PORT, services
from tests.fleet.fleet import TOKEN, Client, Fleet, Gateway, open_fleet, wait_until
from tests.fleet.loopback_servers import LoopbackServers, open_servers
from tests.plain_http import NO_TLS
from tests.postgres import PostgresServer
from tests.servers.programs import eventually
from tests.unit.server.wire import INITIALIZE, INITIALIZED, MODERN, request

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.e2e,
    pytest.mark.skipif(bool(balancers.missing()), reason=balancers.missing()),
]

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])
GATEWAYS = ["gateway-1", "gateway-2"]
PLACES = [f"127.0.0.{number}" for number in range(2, 66)]
"""Addresses of this machine, which the balancer takes for clients on machines of their own."""
HEADERS = {
    "Authorization": f"Bearer {TOKEN}",
    "Accept": "application/json, text/event-stream",
}
OTHER = {"gateway-1": "gateway-2", "gateway-2": "gateway-1"}


@dataclass(frozen=True)
class World:
    """A balancer in front of two gateways, and where clients are that it leads to each of them."""

    folder: Path
    servers: LoopbackServers
    fleet: Fleet
    gateways: Mapping[str, Gateway]
    balancer: Balancer
    places: Mapping[str, str]

    def client(self, gateway: str) -> Client:
        """One that is led to this gateway."""
        return Client(self.balancer.address, place=self.places[gateway])

    def http(self, gateway: str) -> httpx2.AsyncClient:
        """The same, for what no client of MCP would send."""
        return http_from(self.balancer.address, self.places[gateway])

    @asynccontextmanager
    async def agent(self, gateway: str, mode: str) -> AsyncIterator[Agent]:
        """The same with the SDK's client."""
        async with self.http(gateway) as client:
            transport = streamable_http_client(f"{self.balancer.address}/mcp", http_client=client)
            async with Agent(transport, mode=mode, read_timeout_seconds=60) as agent:
                yield agent


def http_from(address: str, place: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        base_url=address,
        headers=HEADERS,
        timeout=60,
        transport=httpx2.AsyncHTTPTransport(local_address=place, verify=NO_TLS),
    )


@contextmanager
def open_world(folder: Path, database: str) -> Iterator[World]:
    _, _, _, *options = services()["gateway-1"]["command"]
    with open_servers(["mail"]) as servers, open_fleet(folder, database) as fleet:
        servers["mail"].tools = {"send_mail": "Send a mail to a person"}
        waiting = fault_entry("awaits_file")
        fleet.configure({**servers.entries(), "waiting": waiting})
        gateways = {name: fleet.start_gateway(name, *options) for name in GATEWAYS}
        for gateway in gateways.values():
            gateway.wait_healthy()
        with open_balancer(folder / "balancer", list(gateways.values())) as balancer:
            places = anyio.run(places_by_gateway, balancer.address)
            yield World(folder, servers, fleet, gateways, balancer, places)


def logged(gateway: Gateway) -> str:
    return gateway.log.read_text("utf-8")


async def places_by_gateway(address: str) -> dict[str, str]:
    """A place for each gateway, looked for until there is one."""
    found: dict[str, str] = {}
    places = cycle(PLACES)
    while len(found) < len(GATEWAYS):
        place = next(places)
        async with http_from(address, place) as client:
            session = await opened(client)
        found.setdefault(session.rpartition(".")[2], place)
    return found


async def opened(client: httpx2.AsyncClient) -> str:
    """The id of a new session of the handshake era."""
    answer = await client.post("/mcp", json=INITIALIZE)
    answer.raise_for_status()
    session: str = answer.headers["mcp-session-id"]
    await client.post("/mcp", json=INITIALIZED, headers={"mcp-session-id": session})
    return session


async def ping(client: httpx2.AsyncClient, session: str) -> int:
    """The status with which a session is answered."""
    headers = {"mcp-session-id": session}
    answer = await client.post("/mcp", json=request(7, "ping"), headers=headers)
    return answer.status_code


@pytest.fixture(scope="module")
def world(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """One for all tests that leave it as it is."""
    with open_world(tmp_path_factory.mktemp("world"), postgres_server.create_database()) as opened:
        yield opened


@pytest.fixture
def own_world(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path, postgres_server.create_database()) as opened:
        yield opened


@pytest.mark.requirement("FLT-52")
def test_the_caddyfile_is_valid_and_formatted_and_has_the_addresses_of_the_containers() -> None:
    validated = caddy("validate", "--config", str(CADDYFILE), "--adapter", "caddyfile")
    formatted = caddy("fmt", str(CADDYFILE))
    [server] = adapted()["apps"]["http"]["servers"].values()

    assert validated.returncode == 0, validated.stderr
    assert formatted.stdout == CADDYFILE.read_text("utf-8")
    assert server["listen"] == [f":{PORT}"]
    gateways = {f"{name}:{PORT}" for name in services() if name in GATEWAYS}
    assert set(values_of("dial", server)) == gateways


@pytest.mark.requirement("FLT-52")
async def test_health_checks_are_for_a_name_that_a_gateway_answers_to(world: World) -> None:
    checks = [found["active"] for found in values_of("health_checks", adapted())]
    async with httpx2.AsyncClient(base_url=world.gateways["gateway-1"].address) as client:
        answers = [
            await client.get(check["uri"], headers={"host": check["headers"]["Host"][0]})
            for check in checks
        ]
        other = await client.get("/health", headers={"host": f"gateway-1:{PORT}"})

    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert other.status_code == 421


def adapted() -> JSONObject:
    """The Caddyfile as Caddy reads it."""
    found: JSONObject = json.loads(caddy("adapt", "--config", str(CADDYFILE)).stdout)
    return found


def values_of(key: str, part: object) -> Iterator[Any]:
    """The values of a key, wherever it is in a JSON document."""
    if isinstance(part, dict):
        if key in part:
            yield part[key]
        part = list(part.values())
    if isinstance(part, list):
        for one in part:
            yield from values_of(key, one)


@pytest.mark.requirement("FLT-52", "SRV-84")
@pytest.mark.parametrize("name", GATEWAYS)
async def test_a_session_stays_with_its_gateway_whichever_was_asked_before(
    world: World, name: str
) -> None:
    elsewhere = world.gateways[OTHER[name]].address
    async with world.http(name) as here, world.http(OTHER[name]) as there:
        session, other = await opened(here), await opened(there)
        statuses = {await ping(client, session) for client in [there, here] * 20}
        async with httpx2.AsyncClient(base_url=elsewhere, headers=HEADERS) as direct:
            refused = await ping(direct, session)

    assert [session.rpartition(".")[2], other.rpartition(".")[2]] == [name, OTHER[name]]
    assert statuses == {200}
    assert refused == 404


@ERAS
@pytest.mark.requirement("FLT-52")
@pytest.mark.parametrize("name", GATEWAYS)
async def test_clients_of_each_era_are_served_by_each_gateway(
    world: World, name: str, mode: str
) -> None:
    gateway = world.gateways[name]
    expected = logged(gateway).count("mail:send_mail") + 5
    with anyio.fail_after(120):
        async with world.agent(name, mode) as agent:
            for _ in range(5):
                text = await text_of(agent, "execute_tool", tool="mail:send_mail")
                assert text == "mail: send_mail"
    # A call is logged after its answer.
    await eventually(lambda: logged(gateway).count("mail:send_mail") == expected)


@ERAS
@pytest.mark.requirement("FLT-52")
async def test_an_answer_arrives_in_parts_while_the_call_goes_on(world: World, mode: str) -> None:
    release = world.folder / f"release-{mode}"

    async def on_progress(*_: object) -> None:
        release.touch()

    arguments = {"tool": "waiting:echo", "arguments": {"text": str(release)}}
    with anyio.fail_after(120):
        async with world.agent("gateway-1", mode) as agent:
            result = await agent.call_tool("execute_tool", arguments, progress_callback=on_progress)

    assert result.content[0].text == "done"


@pytest.mark.requirement("FLT-52")
async def test_a_call_is_cancelled_when_its_client_leaves_the_balancer(world: World) -> None:
    gateway, mail = world.gateways["gateway-1"], world.servers["mail"]
    mail.state, earlier = "silent", mail.calls

    with anyio.fail_after(120):
        async with world.http("gateway-1") as client, anyio.create_task_group() as tasks:
            call = {"name": "execute_tool", "arguments": {"tool": "mail:send_mail"}}
            message = request(9, "tools/call", **call, _meta=MODERN)
            headers = {
                "mcp-protocol-version": "2026-07-28",
                "mcp-method": "tools/call",
                "mcp-name": "execute_tool",
            }
            tasks.start_soon(partial(client.post, "/mcp", json=message, headers=headers))
            await eventually(lambda: mail.calls > earlier)
            tasks.cancel_scope.cancel()
    wait_until(lambda: "send_mail for token 1: cancelled" in logged(gateway), "it is cancelled")
    mail.state = "well"


@pytest.mark.requirement("FLT-52", "RSL-14")
async def test_when_a_gateway_is_gone_the_other_one_serves_its_clients(own_world: World) -> None:
    world = own_world
    lines = "".join(f"line {number}\n" for number in range(50_000))
    world.servers["mail"].texts = {"send_mail": lines}
    client = world.client("gateway-1")
    cut = client.call("execute_tool", tool="mail:send_mail")
    async with world.http("gateway-1") as web:
        session = await opened(web)
        world.gateways["gateway-1"].kill()
        world.balancer.wait_balancing()  # it may have sent a request on a connection of before

        found = client.found("send a mail")
        handle = cut["_meta"]["discovery/answer"]["handle"]
        read = client.call(
            "read_result", handle=handle, path="content[0].text", search="line 49999"
        )
        refused = await ping(web, session)
        successor = await opened(web)
        served = await ping(web, successor)

    assert "mail:send_mail" in found
    assert read["content"][0]["text"].startswith("1 matches")
    assert refused == 404
    assert successor.endswith(".gateway-2")
    assert served == 200
