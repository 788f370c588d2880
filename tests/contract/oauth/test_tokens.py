"""Tokens in use: refreshed, shared between processes, refused, revoked, and sent to nobody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from discovery_engine.engine import Engine
from discovery_engine.errors import NeedsAuthError, UnavailableError
from discovery_engine.secret_store.encrypted_store import EncryptedStore
from discovery_engine.upstream.http.oauth.stored_login import StoredLogin, load_login
from tests.contract.oauth.conftest import OpenEngine
from tests.engines import summary, tool_names
from tests.oauth import OAuthWorld, oauth_world, wait_for
from tests.ports import free_port
from tests.servers.programs import http_server, text_of

pytestmark = pytest.mark.anyio

HOUR = 3600.0


class Clock:
    """Unix time that a test moves; the servers of these tests have the real one."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def read(engine: Engine) -> str:
    return text_of(await engine.execute("files", "read_file", {}))


def stored(folder: Path) -> list[StoredLogin]:
    store = EncryptedStore(folder / "data", {})
    return [login for name in store.names() if (login := load_login(store, name))]


@pytest.mark.thorough
@pytest.mark.requirement("AUT-10")
async def test_a_token_is_refreshed_before_it_expires_once_for_all_who_wait(
    engine_of: OpenEngine, world: OAuthWorld, clock: Clock
) -> None:
    async with engine_of(clock=clock) as engine:
        await engine.logins.log_in("files", world.browser())
        await read(engine)
        assert world.count("refreshed") == 0

        clock.now += HOUR - 50
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(read, engine)

        assert (world.count("refreshed"), world.count("reused")) == (1, 0)


@pytest.mark.thorough
@pytest.mark.requirement("AUT-10")
async def test_a_short_life_does_not_have_each_request_refresh(
    engine_of: OpenEngine, world: OAuthWorld, clock: Clock
) -> None:
    world.control(lifetime=40)

    async with engine_of(clock=clock) as engine:
        await engine.logins.log_in("files", world.browser())
        for _ in range(3):
            await read(engine)
        assert world.count("refreshed") == 0
        clock.now += 37
        await read(engine)

        assert world.count("refreshed") == 1


@pytest.mark.requirement("AUT-11")
async def test_a_refused_token_is_refreshed_and_the_call_is_sent_again(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    async with engine_of() as engine:
        await engine.logins.log_in("files", world.browser())
        await read(engine)
        world.control(end_access=True)

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(read, engine)

        assert (world.count("refreshed"), world.count("reused")) == (1, 0)
        assert summary(engine.view, "files").state == "ready"


CALLS = """
import sys, anyio
from discovery_engine.engine import open_engine

async def main(config, data, calls):
    later = float(sys.argv[4])
    import time
    async with open_engine(config, data_dir=data, clock=lambda: time.time() + later) as engine:
        print("open", flush=True)
        sys.stdin.readline()
        for _ in range(int(calls)):
            result = await engine.execute("files", "read_file", {})
            print(result["content"][0]["text"], flush=True)

anyio.run(main, *sys.argv[1:4])
"""


@pytest.mark.thorough
@pytest.mark.requirement("AUT-12")
async def test_two_processes_never_spend_one_refresh_token_twice(
    engine_of: OpenEngine, world: OAuthWorld, tmp_path: Path
) -> None:
    world.control(lifetime=60)
    async with engine_of() as engine:
        await engine.logins.log_in("files", world.browser())
        await engine.refresh(["files"])
    config = str(world.config(tmp_path))
    later = "58"  # within the margin from the first request on

    def started() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", CALLS, config, str(tmp_path / "data"), "5", later],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )

    processes = [started() for _ in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [await anyio.to_thread.run_sync(process.communicate) for process in processes]

    assert [out for out, _ in outputs] == ["done\n" * 5] * 2
    assert world.count("reused") == 0
    assert world.count("refreshed") >= 1


IMPORTS = """
import sys, anyio
from discovery_engine.engine import open_engine

async def main(config, data):
    async with open_engine(config, data_dir=data) as engine:
        await engine.refresh()
        await engine.execute("remote", "echo", {})
    print([name for name in sys.modules if "http.oauth" in name])

anyio.run(main, *sys.argv[1:])
"""


@pytest.mark.thorough
@pytest.mark.requirement("AUT-25")
async def test_a_remote_server_without_a_login_loads_nothing_of_logins(tmp_path: Path) -> None:
    config = tmp_path / "discovery.yaml"
    with http_server("modern") as url:
        config.write_text(json.dumps({"servers": {"remote": {"url": url}}}), "utf-8")
        command = [sys.executable, "-c", IMPORTS, str(config), str(tmp_path / "data")]
        with anyio.fail_after(60):
            done = await anyio.run_process(command)

    assert done.stdout == b"[]\n"
    assert not list((tmp_path / "data").glob("secrets*"))


@pytest.mark.thorough
@pytest.mark.requirement("AUT-13")
@pytest.mark.parametrize("fault", ["503", "drop"])
async def test_an_authorization_server_that_is_down_ends_no_login(
    engine_of: OpenEngine, world: OAuthWorld, clock: Clock, tmp_path: Path, fault: str
) -> None:
    async with engine_of(clock=clock) as engine:
        await engine.logins.log_in("files", world.browser())
        await read(engine)
        before = stored(tmp_path)
        world.control(token=fault)

        clock.now += HOUR - 50
        assert await read(engine) == "done"  # the token is still good
        clock.now += 100
        with pytest.raises(UnavailableError, match="token cannot be refreshed") as caught:
            await read(engine)

        assert not isinstance(caught.value, NeedsAuthError)
        assert stored(tmp_path) == before
        world.control(token="")
        await engine.refresh(["files"])
        assert await read(engine) == "done"


@pytest.mark.requirement("AUT-13")
async def test_a_rotated_token_whose_answer_was_lost_ends_in_a_login_not_in_a_loop(
    engine_of: OpenEngine, world: OAuthWorld, clock: Clock
) -> None:
    async with engine_of(clock=clock) as engine:
        await engine.logins.log_in("files", world.browser())
        await read(engine)
        world.control(token="drop-after")
        clock.now += HOUR + 1
        with pytest.raises(UnavailableError):
            await read(engine)
        world.control(token="")

        await engine.refresh(["files"])
        with pytest.raises(NeedsAuthError, match="login has ended"):
            await read(engine)
        asked = len(world.requests("/token"))
        with pytest.raises(NeedsAuthError):
            await read(engine)

        assert len(world.requests("/token")) == asked
        await engine.logins.log_in("files", world.browser())
        assert await read(engine) == "done"


@pytest.mark.thorough
@pytest.mark.requirement("AUT-14")
async def test_a_revoked_login_needs_a_login_and_its_tokens_are_forgotten(
    engine_of: OpenEngine, world: OAuthWorld, tmp_path: Path
) -> None:
    async with engine_of() as engine:
        await engine.logins.log_in("files", world.browser())
        await engine.refresh(["files"])
        world.control(end=True)

        with pytest.raises(NeedsAuthError, match="login has ended") as caught:
            await read(engine)

        async with engine_of() as other:  # what the call has shown is remembered
            assert summary(other.view, "files").state == "needs_auth"
            assert summary(other.view, "files").hint == "`discovery login files`"
        assert caught.value.hint == "`discovery login files`"
        assert summary(engine.view, "files").state == "needs_auth"
        assert tool_names(engine.view, "files")  # the last known ones remain
        [login] = stored(tmp_path)
        assert (login.access_token, login.refresh_token) == ("", "")


@pytest.mark.thorough
@pytest.mark.requirement("AUT-14")
async def test_a_token_that_cannot_be_refreshed_ends_with_its_time(
    engine_of: OpenEngine, world: OAuthWorld, clock: Clock
) -> None:
    world.control(refreshable=False)

    async with engine_of(clock=clock) as engine:
        report = await engine.logins.log_in("files", world.browser())
        assert not report.is_refreshable
        clock.now += HOUR - 1
        assert await read(engine) == "done"
        clock.now += 2
        with pytest.raises(NeedsAuthError, match="login has expired"):
            await read(engine)


@pytest.mark.thorough
@pytest.mark.requirement("AUT-15")
async def test_a_token_for_another_audience_is_a_clear_error_and_no_loop(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    world.control(audience="https://other.example/mcp")

    async with engine_of() as engine:
        await engine.logins.log_in("files", world.browser())
        for _ in range(3):
            await engine.refresh(["files"])
            with pytest.raises(NeedsAuthError, match="refuses the token of its login"):
                await read(engine)
        failure = summary(engine.view, "files")
        assert "it may be for another audience" in failure.reason

        assert world.count("refreshed") <= 1
        assert summary(engine.view, "files").state == "needs_auth"


@pytest.mark.requirement("AUT-15")
async def test_a_refused_token_that_cannot_be_refreshed_needs_a_login(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    world.control(refreshable=False)

    async with engine_of() as engine:
        await engine.logins.log_in("files", world.browser())
        assert await read(engine) == "done"
        world.control(end_access=True)
        with pytest.raises(NeedsAuthError, match="it refuses its login"):
            await read(engine)

    assert len(world.requests("/token")) == 1


@pytest.fixture
def other_world() -> Iterator[OAuthWorld]:
    with oauth_world() as other:
        yield other


def sent_to(world: OAuthWorld) -> str:
    return json.dumps(world.control()["requests"])


@pytest.mark.thorough
@pytest.mark.requirement("AUT-16")
async def test_a_changed_address_is_never_sent_the_token_of_the_old_one(
    engine_of: OpenEngine, world: OAuthWorld, other_world: OAuthWorld, tmp_path: Path
) -> None:
    async with engine_of() as engine:
        await engine.logins.log_in("files", world.browser())
        await read(engine)
        config = json.loads(world.config(tmp_path).read_text("utf-8"))
        config["servers"]["files"]["url"] = other_world.resource
        (tmp_path / "discovery.yaml").write_text(json.dumps(config), "utf-8")

        await engine.reload()
        await engine.refresh(["files"])
        with pytest.raises(NeedsAuthError, match="requires a login"):
            await read(engine)

    assert sent_to(other_world) != "[]"
    assert not any(secret in sent_to(other_world) for secret in world.issued)


@pytest.mark.thorough
@pytest.mark.requirement("AUT-16")
async def test_a_redirect_carries_the_token_nowhere(
    engine_of: OpenEngine, world: OAuthWorld, other_world: OAuthWorld
) -> None:
    async with engine_of() as engine:
        await engine.logins.log_in("files", world.browser())
        await read(engine)
        world.control(redirect=other_world.resource)

        with pytest.raises(UnavailableError, match="redirect"):
            await read(engine)
        await engine.refresh(["files"])

    assert sent_to(other_world) == "[]"


@pytest.mark.thorough
@pytest.mark.requirement("AUT-16")
async def test_a_server_that_names_another_authorization_server_gets_no_refresh_token_sent_there(
    engine_of: OpenEngine, world: OAuthWorld, other_world: OAuthWorld, clock: Clock
) -> None:
    path = "/.well-known/oauth-protected-resource/mcp"
    async with engine_of(clock=clock) as engine:
        await engine.logins.log_in("files", world.browser())
        stolen = {"resource": world.resource, "authorization_servers": [other_world.issuer]}
        world.control(resource={path: stolen})
        clock.now += HOUR + 1

        assert await read(engine) == "done"

    assert sent_to(other_world) == "[]"


@pytest.mark.requirement("AUT-17")
async def test_a_login_of_another_process_is_used_at_the_next_call(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    async with engine_of() as running:
        await running.refresh()
        for _ in range(7):  # by now it is backing off
            with pytest.raises(NeedsAuthError):
                await read(running)
        async with engine_of() as other:
            await other.logins.log_in("files", world.browser())

        assert await read(running) == "done"

        async with engine_of() as other:
            await other.logins.log_out("files")
        with pytest.raises(NeedsAuthError, match="requires a login"):
            await read(running)


@pytest.mark.requirement("AUT-17")
async def test_a_running_gateway_lists_a_server_once_somebody_has_logged_in(
    engine_of: OpenEngine, world: OAuthWorld
) -> None:
    def state_is(engine: Engine, state: str) -> Callable[[], bool]:
        return lambda: summary(engine.view, "files").state == state

    async with engine_of() as running, anyio.create_task_group() as tasks:
        tasks.start_soon(running.run_maintenance)
        await wait_for(state_is(running, "needs_auth"))
        async with engine_of() as other:
            await other.logins.log_in("files", world.browser())

        await wait_for(lambda: bool(tool_names(running.view, "files")))
        assert summary(running.view, "files").state == "ready"

        async with engine_of() as other:
            await other.logins.log_out("files")
        await wait_for(lambda: summary(running.view, "files").state == "needs_auth")
        tasks.cancel_scope.cancel()


@pytest.mark.requirement("AUT-18")
async def test_a_machine_gets_its_tokens_with_client_credentials(
    engine_of: OpenEngine, world: OAuthWorld, clock: Clock
) -> None:
    machine = {"client_id": "ci", "client_secret": "m4chine-secret", "redirect_uris": []}
    world.control(clients=[machine])
    oauth = {
        "grant": "client_credentials",
        "clientId": "ci",
        "clientSecret": "${CI}",
        "scopes": ["read"],
    }
    environ = {"CI": "m4chine-secret"}

    async with engine_of(oauth=oauth, environ=environ, clock=clock) as engine:
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(read, engine)
        assert world.count("issued") == 1
        clock.now += HOUR
        await read(engine)
        assert world.count("issued") == 2
        world.control(end=True)
        assert await read(engine) == "done"
        assert world.count("issued") == 3

    async with engine_of(oauth=oauth, environ={"CI": "wrong"}, clock=clock) as engine:
        clock.now += HOUR
        with pytest.raises(NeedsAuthError, match="refuses the client") as caught:
            await read(engine)
    assert caught.value.hint == "check `oauth` of server 'files'"


@pytest.mark.thorough
@pytest.mark.requirement("AUT-14")
async def test_a_wrong_secret_of_the_entry_ends_no_login(
    engine_of: OpenEngine, world: OAuthWorld, clock: Clock
) -> None:
    redirect = f"http://127.0.0.1:{free_port()}/callback"
    client = {"client_id": "ours", "client_secret": "s3cret-s3cret", "redirect_uris": [redirect]}
    method = {"token_endpoint_auth_method": "client_secret_post", "scope": "read"}
    world.control(
        clients=[client | method],
        metadata={"token_endpoint_auth_methods_supported": ["client_secret_post"]},
    )
    oauth = {"clientId": "ours", "clientSecret": "${OURS}", "redirectUri": redirect}
    right, wrong = {"OURS": "s3cret-s3cret"}, {"OURS": "mistyped"}
    async with engine_of(oauth=oauth, environ=right, clock=clock) as engine:
        await engine.logins.log_in("files", world.browser())
    clock.now += HOUR + 1

    async with engine_of(oauth=oauth, environ=wrong, clock=clock) as engine:
        with pytest.raises(NeedsAuthError, match="refuses the client of its entry") as caught:
            await read(engine)
        assert caught.value.hint == "check `oauth` of server 'files'"
    async with engine_of(oauth=oauth, environ=right, clock=clock) as engine:
        assert await read(engine) == "done"


@pytest.mark.thorough
@pytest.mark.requirement("AUT-19")
@pytest.mark.parametrize("damage", ["secrets.json", "secrets.key"])
async def test_a_store_that_cannot_be_read_needs_auth_and_says_where_to_look(
    engine_of: OpenEngine, world: OAuthWorld, tmp_path: Path, damage: str
) -> None:
    async with engine_of() as engine:
        await engine.logins.log_in("files", world.browser())
    file = tmp_path / "data" / damage
    before = file.read_bytes()
    file.write_bytes(b"{")

    async with engine_of() as engine:
        with pytest.raises(NeedsAuthError, match="stored login cannot be read") as caught:
            await read(engine)
        assert "discovery doctor" in caught.value.hint
        assert str(tmp_path) not in f"{caught.value.message} {caught.value.hint}"
        assert damage in caught.value.detail
        assert file.read_bytes() == b"{"
        file.write_bytes(before)
        await engine.refresh(["files"])
        assert await read(engine) == "done"


@pytest.mark.requirement("AUT-12")
async def test_a_logout_during_a_refresh_is_not_undone(
    engine_of: OpenEngine, world: OAuthWorld, clock: Clock, tmp_path: Path
) -> None:
    async with engine_of(clock=clock) as engine, engine_of(clock=clock) as other:
        await engine.logins.log_in("files", world.browser())
        await read(engine)
        world.control(token="hold")
        clock.now += HOUR + 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read, engine)
            await wait_for(lambda: len(world.requests("/token")) == 2)
            tasks.start_soon(other.logins.log_out, "files")
            await anyio.wait_all_tasks_blocked()
            world.control(token="")

        assert stored(tmp_path) == []
        assert world.control()["access"] == []


@pytest.mark.requirement("AUT-12")
async def test_a_login_during_a_refresh_is_not_overwritten(
    engine_of: OpenEngine, world: OAuthWorld, clock: Clock, tmp_path: Path
) -> None:
    async with engine_of(clock=clock) as engine, engine_of(clock=clock) as other:
        await engine.logins.log_in("files", world.browser())
        await read(engine)
        [first] = stored(tmp_path)
        clock.now += HOUR + 1

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(read, engine)
            tasks.start_soon(other.logins.log_in, "files", world.browser())

        [last] = stored(tmp_path)
        assert last.client_id != first.client_id
        assert await read(engine) == "done"


@pytest.mark.requirement("AUT-21")
async def test_a_damaged_login_is_replaced_by_the_next_one(
    engine_of: OpenEngine, world: OAuthWorld, tmp_path: Path
) -> None:
    async with engine_of() as engine:
        await engine.logins.log_in("files", world.browser())
        file = tmp_path / "data" / "secrets.json"
        document = json.loads(file.read_text("utf-8"))
        document["secrets"] = dict.fromkeys(document["secrets"], "AAAA")
        file.write_text(json.dumps(document), "utf-8")
        with pytest.raises(NeedsAuthError, match="cannot be read"):
            await read(engine)

        await engine.logins.log_in("files", world.browser())

        assert await read(engine) == "done"


@pytest.mark.requirement("AUT-13")
async def test_tokens_that_cannot_be_stored_are_used_all_the_same(
    engine_of: OpenEngine, world: OAuthWorld, clock: Clock, tmp_path: Path
) -> None:
    file, aside = tmp_path / "data" / "secrets.lock", tmp_path / "aside"
    async with engine_of(clock=clock) as engine:
        await engine.logins.log_in("files", world.browser())
        await read(engine)
        file.rename(aside)
        file.mkdir()  # so nothing can be written
        clock.now += HOUR + 1
        assert await read(engine) == "done"
        clock.now += HOUR + 1
        assert await read(engine) == "done"

        file.rmdir()
        aside.rename(file)
        clock.now += HOUR + 1
        assert await read(engine) == "done"
        assert (world.count("refreshed"), world.count("reused")) == (3, 0)

    async with engine_of(clock=clock) as engine:
        assert await read(engine) == "done"


@pytest.mark.thorough
@pytest.mark.requirement("AUT-13")
async def test_a_good_token_waits_for_no_authorization_server_that_is_down(
    engine_of: OpenEngine, world: OAuthWorld, clock: Clock
) -> None:
    async with engine_of(clock=clock) as engine:
        await engine.logins.log_in("files", world.browser())
        await read(engine)
        world.control(token="503")
        clock.now += HOUR - 30
        for _ in range(3):
            assert await read(engine) == "done"

        assert len(world.requests("/token")) == 2  # the login, and one try


async def test_a_caller_that_goes_away_does_not_lose_the_new_token(
    engine_of: OpenEngine, world: OAuthWorld, clock: Clock, tmp_path: Path
) -> None:
    async with engine_of(clock=clock) as engine:
        await engine.logins.log_in("files", world.browser())
        await read(engine)
        [before] = stored(tmp_path)
        clock.now += HOUR + 1

        async def begun(scope: anyio.CancelScope) -> None:
            await anyio.to_thread.run_sync(lambda: _until(lambda: world.requests("/token")[1:]))
            scope.cancel()

        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(begun, scope)
                await read(engine)

        assert world.count("refreshed") == 1
        [after] = stored(tmp_path)
        assert after.refresh_token != before.refresh_token
        assert await read(engine) == "done"
        assert world.count("reused") == 0


def _until(holds: Callable[[], Any]) -> None:
    while not holds():
        pass
