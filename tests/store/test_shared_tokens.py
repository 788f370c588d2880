"""Tokens of clients that are valid at all gateways of a database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from discovery_cli.program import cli
from discovery_engine.errors import ConfigurationError, RegistryUnavailableError
from discovery_engine.store.backends import open_database
from discovery_server.access_tokens import AccessTokens
from discovery_server.stored_tokens import SharedTokens
from tests.postgres import PostgresServer
from tests.tcp_proxy import TcpProxy, open_proxy

pytestmark = pytest.mark.anyio
SCOPE = "name:fleet"

Machine = Callable[[str], AccessTokens]
"""The tokens as a process on the machine of that name opens them."""


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[TcpProxy]:
    with open_proxy(postgres_server.port) as opened:
        yield opened


@pytest.fixture
def machine(proxy: TcpProxy, postgres_server: PostgresServer, tmp_path: Path) -> Iterator[Machine]:
    name = postgres_server.create_database().rpartition("/")[2]
    with ExitStack() as at_end:

        def opened(machine: str) -> AccessTokens:
            url = postgres_server.url(name, port=proxy.port)
            registry = at_end.enter_context(closing(open_database(url, timeout=60.0)))
            folder = tmp_path / machine
            folder.mkdir(exist_ok=True)
            shared = SharedTokens(registry.gateways, SCOPE, folder)
            return AccessTokens(folder / "tokens.json", shared=shared)

        yield opened


def shared_of(tokens: AccessTokens) -> SharedTokens:
    assert tokens.shared
    return tokens.shared


def is_open(tokens: AccessTokens, value: str) -> bool:
    found = tokens.find(value.encode())
    return found is not None and tokens.is_valid(found.id)


@pytest.mark.requirement("SRV-82")
async def test_a_token_is_everywhere_what_it_was_made_as_and_no_file_has_it(
    machine: Machine, tmp_path: Path
) -> None:
    here, there = machine("here"), machine("there")
    value, made = here.create(name="anna", principals=["team:payments"], view="readers")

    await shared_of(there).prepare()

    assert there.find(value.encode()) == made
    assert not (tmp_path / "here" / "tokens.json").exists()
    assert value not in "".join(one.read_text("utf-8") for one in (tmp_path / "there").iterdir())


@pytest.mark.requirement("SRV-82")
async def test_a_gateway_that_starts_without_the_database_has_the_tokens_it_last_saw(
    machine: Machine, proxy: TcpProxy
) -> None:
    value, _ = machine("here").create(name="anna")
    await shared_of(machine("there")).prepare()
    proxy.refuse()

    restarted, new = machine("there"), machine("new")
    await shared_of(restarted).prepare()
    await shared_of(new).prepare()

    assert is_open(restarted, value)
    assert not is_open(new, value)
    with pytest.raises(RegistryUnavailableError):
        restarted.create()
    with pytest.raises(RegistryUnavailableError):
        restarted.revoke("anna")


@pytest.mark.requirement("SRV-82")
async def test_what_is_revoked_is_over_also_after_a_restart(machine: Machine) -> None:
    here, there = machine("here"), machine("there")
    value, _ = here.create(name="anna")
    await shared_of(there).prepare()

    here.revoke("anna")
    await shared_of(there).prepare()

    assert not is_open(there, value)
    assert shared_of(machine("there")).known == ()


@pytest.mark.requirement("SRV-82")
def test_machines_that_make_tokens_at_once_lose_none_and_give_a_name_once(machine: Machine) -> None:
    machines = [machine(str(number)) for number in range(4)]

    def make(tokens: AccessTokens) -> bool:
        tokens.create()
        try:
            tokens.create(name="anna")
        except ConfigurationError:
            return False
        return True

    with ThreadPoolExecutor() as threads:
        made = list(threads.map(make, machines))

    assert sorted(made) == [False, False, False, True]
    assert len(shared_of(machines[0]).all()) == 5


@pytest.mark.requirement("SRV-82")
def test_a_token_of_a_newer_version_is_not_valid_and_stays(
    machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = machine("here")
    newer = '{"version":99,"tokens":[]}'
    shared_of(tokens)._store.change_access_tokens(SCOPE, lambda _: (newer,))

    tokens.create(name="anna")
    tokens.revoke("anna")

    assert shared_of(tokens)._store.access_tokens(SCOPE) == (newer,)
    assert shared_of(tokens).all() == ()
    assert "version 99" in caplog.text


@pytest.mark.requirement("SRV-82")
def test_tokens_of_the_file_and_of_the_database_are_revoked_by_one_command(
    machine: Machine,
) -> None:
    tokens = machine("here")
    AccessTokens(tokens.path).create(name="old")
    tokens.create(name="new")

    tokens.revoke("old", "new")

    assert tokens.all() == shared_of(tokens).all() == ()


@pytest.mark.requirement("SRV-82")
def test_a_configuration_with_another_name_has_none_of_the_tokens_and_is_told_where_they_are(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    url, file = postgres_server.create_database(), tmp_path / "discovery.yaml"

    def run(name: str, *words: str) -> Result:
        file.write_text(json.dumps({**name_of(name), "registry": {"url": "${DATABASE}"}}), "utf-8")
        options = ["--config", str(file), "--data-dir", str(tmp_path / "data")]
        done = CliRunner().invoke(cli, [*options, "token", *words], env={"DATABASE": url})
        assert done.exit_code == 0, done.output
        return done

    run("", "create", "--name", "first")
    named = run("fleet", "list")
    run("fleet", "create", "--name", "second")
    own, renamed, former = run("fleet", "list"), run("other", "list"), run("", "list")

    assert ("first" in named.stdout, repr(str(file)) in said(named)) == (False, True)
    assert ("second" in own.stdout, "the registry has tokens" in said(own)) == (True, False)
    assert ("second" in renamed.stdout, "'fleet'" in said(renamed)) == (False, True)
    assert ("first" in former.stdout, "the registry has tokens" in said(former)) == (True, False)


def name_of(name: str) -> dict[str, str]:
    return {"name": name} if name else {}


def said(result: Result) -> str:
    return " ".join(result.stderr.split())
