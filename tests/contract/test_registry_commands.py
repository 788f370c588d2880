"""`discovery registry`, and what `doctor` writes of a database."""

from __future__ import annotations

import json
import secrets
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from discovery_engine.errors import RegistryError
from discovery_engine.registry.backends import open_database
from discovery_engine.registry.preset_records import Preset
from discovery_engine.registry.protocols import Snapshot
from discovery_engine.registry.request_records import AgentRequest
from discovery_engine.registry.server_records import RegisteredServer
from discovery_engine.registry.sqlite.registry import open_sqlite
from discovery_engine.registry.transfer import PortableRegistry, content_of, copy_registry
from discovery_engine.search.examples.written import WrittenRequests
from discovery_engine.search.usage import UseCount
from discovery_engine.tools.model import ServerName, ToolKey, ToolName
from discovery_engine.trust.decisions import Acceptance, Approval
from tests.attacks.reserved_rows import CANARY, OTHER_TEAM, filled
from tests.contract.discovery import Discovery
from tests.contract.worlds import worlds
from tests.factories import make_part, make_settings
from tests.forked import Preloaded
from tests.postgres import PASSWORD, PostgresServer

SCOPE = "/home/\udcff/discovery.yaml"
ONE_OF_EACH = {
    "decisions": 7, "settings": 1, "servers": 1, "uses": 1, "vectors": 1, "written requests": 1,
    "presets": 1, "requests of agents": 1,
}  # fmt: skip


@pytest.fixture
def discovery(tmp_path: Path, forked: Preloaded) -> Discovery:
    return Discovery(tmp_path, forked)


def fill(store: PortableRegistry) -> None:
    """Something of every kind, with names that are no UTF-8."""
    strange = "s\udc80\0"
    store.save_settings(SCOPE, make_settings("a", strange))
    store.save_parts(SCOPE, [make_part(strange, "x", "y")], revision=3)
    store.save_uses(SCOPE, {ToolKey(ServerName(strange), ToolName("x")): UseCount(1.5, 9.0)})
    store.save_vectors(SCOPE, "m", {b"1": b"\x00one"})
    store.approve(SCOPE, [Approval(strange, "1")], at=1.0)
    for meaning in ("1", "2", "1"):
        store.accept(SCOPE, [Acceptance(strange, "x", meaning, "f", '"\\u0000"')], at=2.0)
    store.save_servers(SCOPE, [RegisteredServer(strange, {"url": "https://a.example"})])
    store.save_servers("other", [RegisteredServer("b", {"url": "https://b.example"})])
    store.set_switches(SCOPE, {strange: False, "gone": True}, at=4.0)
    store.save_requests([WrittenRequests(strange, "x", "f", ("do it",), "m", 1, 5.0)])
    store.save_preset(SCOPE, Preset(strange, "x", "usual", {"a": "\0"}, 6.0))
    store.save_agent_request(SCOPE, AgentRequest("r1", "sync", arguments={"a": "\0"}))


@pytest.mark.requirement("PGS-17")
def test_a_copy_there_and_back_is_the_same_registry(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    url = postgres_server.create_database()
    with (
        open_sqlite(tmp_path / "one" / "registry.db") as original,
        closing(open_database(url)) as database,
        open_sqlite(tmp_path / "two" / "registry.db") as back,
    ):
        fill(original)
        there = copy_registry(original, database)
        again = copy_registry(database, back)

        assert there == again == content_of(original)
        assert {kind: one.count for kind, one in there.items()} == ONE_OF_EACH
        for store in (database, back):
            assert store.load(SCOPE) == original.load(SCOPE)
            assert store.history(SCOPE, "s\udc80\0") == original.history(SCOPE, "s\udc80\0")
            assert store.servers_mark(SCOPE) == original.servers_mark(SCOPE)
            assert store.newest_decision() == original.newest_decision()
            assert store.lost_at(SCOPE) is None
    with open_sqlite(tmp_path / "two" / "registry.db") as reopened:  # its second copy agrees, too
        assert content_of(reopened) == there


@pytest.mark.requirement("PGS-17")
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(world=worlds(), scope=st.text(st.characters()))
def test_any_catalog_is_copied_as_it_is(
    postgres_server: PostgresServer, tmp_path: Path, world: Snapshot, scope: str
) -> None:
    name = f"{abs(hash((scope, id(world))))}.db"
    with (
        open_sqlite(tmp_path / name) as original,
        closing(open_database(postgres_server.create_database())) as database,
    ):
        original.save_settings(scope, world.settings)
        original.save_parts(scope, world.catalog.parts.values(), revision=7)

        copy_registry(original, database)

        assert database.load(scope) == original.load(scope)


@pytest.mark.requirement("PGS-17")
def test_what_is_there_is_never_written_over(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    with (
        open_sqlite(tmp_path / "registry.db") as original,
        closing(open_database(postgres_server.create_database())) as database,
    ):
        fill(original)
        database.approve("mine", [Approval("a", "1")], at=1.0)

        with pytest.raises(RegistryError, match="is not empty") as caught:
            copy_registry(original, database)

        assert "empty" in caught.value.hint
        assert database.approvals("mine") == {"a": {"1"}}
        assert not database.scopes()


@pytest.mark.requirement("PGS-18")
def test_a_registry_is_copied_and_used_by_typing_two_lines(
    postgres_server: PostgresServer, discovery: Discovery
) -> None:
    url = postgres_server.create_database()
    discovery.configure()
    discovery("refresh")
    before = discovery("list", "--json").json

    copied = discovery("registry", "copy", "--to", "${DATABASE_URL}", DATABASE_URL=url)
    assert (copied.code, "digests are those of the original" in copied.err) == (0, True)
    discovery.configure(rules='registry: {url: "${DATABASE_URL}"}\n')
    after = discovery("list", "--json", DATABASE_URL=url).json

    assert after == before
    assert discovery.starts == 1
    info = discovery("registry", "info", "--json", DATABASE_URL=url).json
    assert info["database"]["configurations"] == 1
    assert info["place"].startswith("postgresql://gateway@127.0.0.1:")
    assert "call log and metrics" in info["on_this_machine"]
    back = discovery(
        "registry", "copy", "--to", f"sqlite:///{discovery.home}/back.db", DATABASE_URL=url
    )
    assert back.code == 0


@pytest.mark.requirement("PGS-18")
def test_a_database_that_is_gone_is_exit_code_5_with_the_reason(
    postgres_server: PostgresServer, discovery: Discovery
) -> None:
    url = postgres_server.create_database()
    discovery.configure(rules='registry: {url: "${DATABASE_URL}"}\n')
    wrong = url.replace("horse", "hor5e")

    for word in ("check", "info", "migrate"):
        good = discovery("registry", word, DATABASE_URL=url)
        bad = discovery("registry", word, "--json", DATABASE_URL=wrong)

        assert good.code == 0
        assert bad.code == 5
        assert json.loads(bad.err or bad.out)["error"]["code"] == "REGISTRY_UNAVAILABLE"
        assert "password authentication failed" in bad.err + bad.out
        assert not any(secret in bad.err + bad.out for secret in (PASSWORD, "hor5e"))


@pytest.mark.requirement("PGS-18")
def test_doctor_has_the_state_of_the_database(
    postgres_server: PostgresServer, discovery: Discovery
) -> None:
    url = postgres_server.create_database()
    discovery.configure(rules='registry: {url: "${DATABASE_URL}"}\n')

    healthy = discovery("doctor", DATABASE_URL=url)
    gone = discovery("doctor", DATABASE_URL=url.replace("127.0.0.1", "no-such-host.invalid"))

    assert "vectors are kept as bytes and compared in each gateway" in healthy.out
    assert "pgvector is not installed: `CREATE EXTENSION vector`" in " ".join(healthy.out.split())
    assert "REGISTRY_UNAVAILABLE" in gone.out
    assert "decisions are refused" in gone.out


@pytest.mark.requirement("PGS-16")
def test_a_password_is_not_taken_as_an_argument(discovery: Discovery) -> None:
    discovery.configure()

    refused = discovery("registry", "copy", "--to", "postgresql://u:hunter2@127.0.0.1/db")

    assert refused.code == 1
    assert "--to '${DATABASE_URL}'" in refused.err


@pytest.mark.requirement("PGS-18")
def test_a_file_needs_no_driver(discovery: Discovery) -> None:
    discovery.configure()
    discovery("refresh")

    for word in ("check", "info", "migrate"):
        shown = discovery("registry", word)
        assert (shown.code, "registry.db" in shown.out) == (0, True)


@pytest.mark.requirement("SCP-26")
def test_roles_are_granted_shown_and_revoked_by_commands(
    postgres_server: PostgresServer, discovery: Discovery
) -> None:
    url = postgres_server.create_database()
    discovery.configure(rules='registry: {url: "${DATABASE_URL}"}\nname: company\n')
    role = f"team_{secrets.token_hex(6)}"
    missing = discovery("registry", "grant", role, "--team", "sales", DATABASE_URL=url)
    with postgres_server.admin() as admin:
        admin.execute(f"CREATE ROLE {role}")

    granted = discovery("registry", "grant", role, "--team", "sales", DATABASE_URL=url)
    shown = discovery("registry", "grants", "--json", DATABASE_URL=url)
    revoked = discovery("registry", "revoke", role, DATABASE_URL=url)
    again = discovery("registry", "revoke", role, "--json", DATABASE_URL=url)
    listed = discovery("registry", "grants", DATABASE_URL=url)

    assert (missing.code, granted.code, revoked.code) == (1, 0, 0)
    assert "CREATE ROLE" in missing.err
    assert "no `visibleTo` of the configuration names team:sales" in granted.err
    assert json.loads(shown.out)["grants"] == [{"role": role, "principals": ["team:sales"]}]
    assert json.loads(again.out)["revoked"] is False
    assert "0 roles" in listed.err


@pytest.mark.requirement("SCP-26", "SCP-28")
def test_a_restricted_role_is_shown_for_whom_it_stands(
    postgres_server: PostgresServer, discovery: Discovery
) -> None:
    with filled(postgres_server) as rows:
        role = rows.role(OTHER_TEAM)
        discovery.configure(
            rules='registry: {url: "${DATABASE_URL}", readOnly: true}\nname: company\n'
        )
        shown = discovery("registry", "info", DATABASE_URL=role.url)
        checked = discovery("registry", "check", "--json", DATABASE_URL=role.url)
        examined = discovery("doctor", DATABASE_URL=role.url)
        others = [
            discovery("registry", *words, DATABASE_URL=role.url)
            for words in (("grants",), ("grant", role.name, "--team", "payments"))
        ]

    assert "its role reads of 1 configuration what is for all and team:sales" in shown.out
    assert json.loads(checked.out)["database"]["principals"] == [OTHER_TEAM]
    assert CANARY not in shown.out + checked.out + examined.out + examined.err
    assert "REGISTRY_UNAVAILABLE" not in examined.out
    assert [one.code for one in others] == [0, 1]
    assert f"the role {role.name!r} does not own the tables" in others[1].err


@pytest.mark.requirement("SCP-26")
def test_a_file_has_no_roles(discovery: Discovery) -> None:
    discovery.configure()

    refused = discovery("registry", "grants")

    assert refused.code == 1
    assert "the registry is a file, which has no roles" in refused.err
