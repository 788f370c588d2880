"""Tokens in use: refreshed, shared between processes, refused, revoked, and sent to nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from discovery_engine import Engine
from discovery_engine.errors import NeedsAuthError, UnavailableError
from tests.contract.oauth.conftest import OpenEngine
from tests.engines import summary, tool_names
from tests.factories import Clock
from tests.oauth import OAuthWorld, oauth_world, wait_for
from tests.servers.programs import text_of

pytestmark = pytest.mark.anyio

HOUR = 3600.0
CLIENT_CREDENTIALS = {
    "grant": "client_credentials",
    "clientId": "ci",
    "clientSecret": "${CI}",
    "scopes": ["read"],
}


@pytest.fixture
def clock() -> Clock:
    return Clock(1_800_000_000.0)


async def read(engine: Engine) -> str:
    return text_of(await engine.execute("files", "read_file", {}))


async def read_often(engine: Engine) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(read, engine)


@pytest.mark.requirement("AUT-10")
async def test_a_token_is_refreshed_once_for_all_who_wait(
    engine_of: OpenEngine, world: OAuthWorld, clock: Clock
) -> None:
    async with engine_of(clock=clock) as engine:
        await engine.logins.log_in("files", world.browser())
        await read(engine)
        assert world.count("refreshed") == 0
        clock.now += HOUR - 50
        await read_often(engine)
        assert (world.count("refreshed"), world.count("reused")) == (1, 0)

        world.control(end_access=True)
        await read_often(engine)
        assert (world.count("refreshed"), world.count("reused")) == (2, 0)
        assert summary(engine.view, "files").state == "ready"


@pytest.mark.requirement("AUT-10")
async def test_a_machine_gets_its_tokens_with_client_credentials(
    engine_of: OpenEngine, world: OAuthWorld, clock: Clock
) -> None:
    machine = {"client_id": "ci", "client_secret": "m4chine-secret", "redirect_uris": []}
    world.control(clients=[machine])
    environ = {"CI": "m4chine-secret"}

    async with engine_of(oauth=CLIENT_CREDENTIALS, environ=environ, clock=clock) as engine:
        await read_often(engine)
        assert world.count("issued") == 1
        clock.now += HOUR
        await read(engine)
        assert world.count("issued") == 2
    wrong = {"CI": "wrong"}
    async with engine_of(oauth=CLIENT_CREDENTIALS, environ=wrong, clock=clock) as engine:
        clock.now += HOUR
        with pytest.raises(NeedsAuthError, match="refuses the client") as caught:
            await read(engine)
    assert caught.value.hint == "check `oauth` of server 'files'"


@pytest.mark.requirement("AUT-12")
async def test_a_login_and_a_logout_elsewhere_take_effect_in_a_process_that_runs(
    engine_of: OpenEngine, world: OAuthWorld, clock: Clock
) -> None:
    async with (
        engine_of(clock=clock) as running,
        engine_of(clock=clock) as other,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(running.run_maintenance)
        await wait_for(lambda: summary(running.view, "files").state == "needs_auth")
        await other.logins.log_in("files", world.browser())
        assert await read(running) == "done"
        await wait_for(lambda: bool(tool_names(running.view, "files")))

        world.control(token="hold")  # a logout while a token is refreshed is not undone
        clock.now += HOUR + 1
        async with anyio.create_task_group() as calls:
            calls.start_soon(read, running)
            await wait_for(lambda: len(world.requests("/token")) == 2)
            calls.start_soon(other.logins.log_out, "files")
            await anyio.wait_all_tasks_blocked()
            world.control(token="")
        assert world.control()["access"] == []
        with pytest.raises(NeedsAuthError, match="requires a login"):
            await read(running)
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("AUT-14")
async def test_an_authorization_server_that_is_down_ends_no_login(
    engine_of: OpenEngine, world: OAuthWorld, clock: Clock
) -> None:
    async with engine_of(clock=clock) as engine:
        await engine.logins.log_in("files", world.browser())
        await read(engine)
        for fault in ("503", "drop"):
            world.control(token=fault)
            clock.now += HOUR - 50
            assert await read(engine) == "done"  # the token is still good
            clock.now += 100
            with pytest.raises(UnavailableError, match="token cannot be refreshed"):
                await read(engine)
            world.control(token="")
            await engine.refresh(["files"])
            assert await read(engine) == "done"


@pytest.mark.requirement("AUT-14")
async def test_a_login_that_has_ended_is_said_once_and_does_not_loop(
    engine_of: OpenEngine, world: OAuthWorld, clock: Clock
) -> None:
    async with engine_of(clock=clock) as engine:
        await engine.logins.log_in("files", world.browser())
        await engine.refresh(["files"])
        world.control(token="drop-after")  # the answer with a rotated token is lost
        clock.now += HOUR + 1
        with pytest.raises(UnavailableError):
            await read(engine)
        world.control(token="")
        await engine.refresh(["files"])
        with pytest.raises(NeedsAuthError, match="login has ended") as caught:
            await read(engine)
        asked = len(world.requests("/token"))
        with pytest.raises(NeedsAuthError):
            await read(engine)
        assert len(world.requests("/token")) == asked
        assert caught.value.hint == "`discovery login files`"
        async with engine_of() as other:  # what the call has shown is remembered
            assert summary(other.view, "files").state == "needs_auth"
        assert tool_names(engine.view, "files")  # the last known ones remain

        world.control(audience="https://other.example/mcp")
        await engine.logins.log_in("files", world.browser())
        refreshed = world.count("refreshed")
        for _ in range(3):
            await engine.refresh(["files"])
            with pytest.raises(NeedsAuthError, match="refuses the token of its login"):
                await read(engine)
        assert "it may be for another audience" in summary(engine.view, "files").reason
        assert world.count("refreshed") <= refreshed + 1


@pytest.fixture
def other_world() -> Iterator[OAuthWorld]:
    with oauth_world() as other:
        yield other


def sent_to(world: OAuthWorld) -> str:
    return json.dumps(world.control()["requests"])


@pytest.mark.requirement("AUT-16")
async def test_a_token_is_sent_nowhere_but_to_the_address_of_its_login(
    engine_of: OpenEngine, world: OAuthWorld, other_world: OAuthWorld, clock: Clock, tmp_path: Path
) -> None:
    path = "/.well-known/oauth-protected-resource/mcp"
    stolen = {"resource": world.resource, "authorization_servers": [other_world.issuer]}
    async with engine_of(clock=clock) as engine:
        await engine.logins.log_in("files", world.browser())
        world.control(resource={path: stolen})
        clock.now += HOUR + 1
        assert await read(engine) == "done"
        world.control(resource={}, redirect=other_world.resource)
        with pytest.raises(UnavailableError, match="redirect"):
            await read(engine)
        await engine.refresh(["files"])
        assert sent_to(other_world) == "[]"

        world.control(redirect="")
        config = json.loads(world.config(tmp_path).read_text("utf-8"))
        config["servers"]["files"]["url"] = other_world.resource
        (tmp_path / "discovery.yaml").write_text(json.dumps(config), "utf-8")
        await engine.reload()
        await engine.refresh(["files"])
        with pytest.raises(NeedsAuthError, match="requires a login"):
            await read(engine)

    assert sent_to(other_world) != "[]"
    assert not any(secret in sent_to(other_world) for secret in world.issued)


@pytest.mark.requirement("AUT-21")
async def test_a_store_that_cannot_be_read_needs_auth_and_stays_as_it_is(
    engine_of: OpenEngine, world: OAuthWorld, tmp_path: Path
) -> None:
    async with engine_of() as engine:
        await engine.logins.log_in("files", world.browser())

    for name in ("secrets.json", "secrets.key"):
        file = tmp_path / "data" / name
        before = file.read_bytes()
        file.write_bytes(b"{")
        async with engine_of() as engine:
            with pytest.raises(NeedsAuthError, match="stored login cannot be read") as caught:
                await read(engine)
            assert "discovery doctor" in caught.value.hint
            assert str(tmp_path) not in f"{caught.value.message} {caught.value.hint}"
            assert file.read_bytes() == b"{"
            file.write_bytes(before)
            await engine.refresh(["files"])
            assert await read(engine) == "done"
