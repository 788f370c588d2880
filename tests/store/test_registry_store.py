"""What every registry back-end promises: one suite, run over all of them."""

from __future__ import annotations

import random
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.catalog import DroppedTool, Failure
from discovery_engine.config.serve_settings import SandboxSettings
from discovery_engine.config.settings import (
    OAuthSettings,
    RegistrySettings,
    RemoteTransport,
    StdioTransport,
)
from discovery_engine.errors import Origin, RegistryError
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.search.examples.book import WrittenRequests
from discovery_engine.search.usage import UseCount
from discovery_engine.store.backends import BACKENDS, open_registry, sqlite_url
from discovery_engine.store.codec import without_secrets
from discovery_engine.store.registry import Registry
from discovery_engine.store.snapshot import Snapshot
from discovery_engine.store.stored_records import Lease
from discovery_engine.store.tables import request_table
from discovery_engine.tools.model import ServerName, ToolKey, ToolName, canonical_json
from discovery_engine.trust.decisions import Acceptance, Approval, Decisions
from tests.factories import (
    make_catalog,
    make_entry,
    make_part,
    make_problem,
    make_server,
    make_settings,
)
from tests.rows import rows
from tests.store.registry_stores import BACK_ENDS, back_ends, kept_vector, pass_period
from tests.worlds import worlds

SCOPE = "/home/someone/discovery.yaml"


def tools_of(store: Registry, scope: str = SCOPE) -> list[str]:
    world = store.load(scope)
    return [str(entry.key) for entry in world.catalog] if world else []


@pytest.mark.requirement("REG-24")
def test_this_suite_runs_over_every_back_end() -> None:
    assert BACKENDS.keys() <= BACK_ENDS.keys()


@pytest.mark.requirement("REG-24")
def test_a_url_leads_to_the_same_registry_again(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "with space%20" / "registry.db")
    with closing(open_registry(url)) as first:
        first.approve(SCOPE, [Approval("a", "one")], at=1.0)

    with closing(open_registry(url)) as second:
        assert second.decisions(SCOPE).approvals == {"a": {"one"}}

    assert (tmp_path / "with space%20" / "registry.db").is_file()


@pytest.mark.requirement("REG-24")
@rows(
    ("url", "hint"),
    [
        ("mysql://host/db", "`sqlite:`"),
        ("postgresql://[host/db", "postgresql://USER@HOST"),
        ("/home/someone/registry.db", "`sqlite:`"),
        ("sqlite:///", "sqlite:///"),
        ("sqlite:registry.db", "sqlite:///"),
    ],
)
def test_a_url_of_no_back_end_is_refused_with_what_to_write(url: str, hint: str) -> None:
    with pytest.raises(RegistryError) as caught:
        open_registry(url)

    assert hint in str(caught.value.hint)


@pytest.mark.requirement("REG-1")
def test_a_scope_that_was_never_saved_has_no_world(store: Registry) -> None:
    assert store.load(SCOPE) is None


@pytest.mark.requirement("REG-1")
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(world=worlds(), scope=st.text(st.characters()))
def test_a_world_comes_back_as_it_was_saved_without_its_secrets(
    store: Registry, world: Snapshot, scope: str
) -> None:
    store.forget(scope)
    revision = world.catalog.revision + _revision_of(store, scope)

    store.save_settings(scope, world.settings)
    store.save_parts(scope, world.catalog.parts.values(), revision=revision)

    loaded = store.load(scope)
    assert loaded == Snapshot(
        without_secrets(world.settings), replace(world.catalog, revision=revision)
    )
    for part in loaded.catalog.parts.values():
        assert part.digest == replace(part).digest


def _revision_of(store: Registry, scope: str) -> int:
    world = store.load(scope)
    return world.catalog.revision if world else 0


@pytest.mark.requirement("REG-1")
def test_a_world_with_everything_in_it_comes_back(store: Registry) -> None:
    origin = Origin("/etc/discovery.yaml", 3, 5)
    problem = make_problem(origin, "servers.b.command", "is not text", "quote it")
    rule = Rule(
        ("get_*",), ("git*",), {"readOnlyHint": True}, ("prod",), True, ("safe",), origin=origin
    )
    remembered = make_settings(
        make_server("a", transport=None, tags=("x",), prefix="a_", origin=origin),
        make_server("b", transport=None, problem=problem),
        tool_rules=(rule,),
        server_rules=(rule,),
        warnings=(problem,),
        remembered="in part",
    )
    entries = (
        make_entry("one", "a", prefix="a_", tags=["x"]),
        make_entry("two", "a", enabled=False),
    )
    part = make_part(
        "a",
        *entries,
        verdict=Verdict(enabled=True, tags=("x",), reason="rule", rule=0),
        ttl=2.5,
        failure=Failure("SERVER_CONNECTION_ERROR", "it is gone", "start it", 1001.5),
        dropped=(DroppedTool("three", "no inputSchema"),),
        instructions="be kind",
        connection="c0ffee",
    )

    store.save_settings(SCOPE, remembered)
    store.save_parts(SCOPE, [part], revision=7)

    assert store.load(SCOPE) == Snapshot(remembered, make_catalog(part, revision=7))


@pytest.mark.requirement("REG-2")
def test_a_transport_without_literals_that_may_be_secret_comes_back_whole(store: Registry) -> None:
    oauth = OAuthSettings(client_id="laptop", client_secret="${SECRET}", scopes=("read",))
    remote = RemoteTransport("https://example.org/mcp", {"X": "${TOKEN}"}, "sse", oauth)
    sandbox = SandboxSettings("auto", read=("/srv",), network=True)
    stdio = StdioTransport("run", ("--port", "80"), {"TOKEN": "${TOKEN}"}, "/srv", sandbox)
    servers = [make_server("a", transport=stdio), make_server("b", transport=remote)]

    store.save_settings(SCOPE, make_settings(*servers))

    world = store.load(SCOPE)
    assert world
    assert world.settings == make_settings(*servers, remembered="whole")


@pytest.mark.requirement("REG-2")
def test_no_transport_is_stored_in_a_database_that_others_share(store: Registry) -> None:
    server = make_server("a", transport=StdioTransport("run"))

    store.save_settings(SCOPE, make_settings(server, registry=RegistrySettings(url="${DB}")))

    world = store.load(SCOPE)
    assert world
    assert world.settings.servers[0].transport is None


@pytest.mark.requirement("REG-2")
def test_no_transport_with_a_secret_and_no_excerpt_is_given_back(store: Registry) -> None:
    problem = make_problem(Origin("f"), "p", "m", excerpt="token: hunter2")
    transports = [
        StdioTransport("run", ("--token=hunter2",), {"TOKEN": "hunter2"}),
        RemoteTransport("https://example.org/?token=hunter2", {"Authorization": "hunter2"}),
    ]
    servers = [make_server(f"s{i}", transport=t) for i, t in enumerate(transports)]
    servers.append(make_server("broken", transport=None, problem=problem))

    store.save_settings(SCOPE, make_settings(*servers, warnings=(problem,)))

    world = store.load(SCOPE)
    assert world
    assert "hunter2" not in repr(world)
    assert [server.transport for server in world.settings.servers] == [None, None, None]


@pytest.mark.requirement("REG-3")
def test_saving_a_part_replaces_that_servers_tools_and_no_others(store: Registry) -> None:
    store.save_settings(SCOPE, make_settings("a", "b"))
    store.save_parts(SCOPE, [make_part("a", "old", "kept"), make_part("b", "other")], revision=1)

    store.save_parts(SCOPE, [make_part("a", "kept", "new")], revision=2)

    assert tools_of(store) == ["a:kept", "a:new", "b:other"]


@pytest.mark.requirement("REG-3")
def test_a_part_without_tools_is_a_listing_all_the_same(store: Registry) -> None:
    store.save_settings(SCOPE, make_settings("a", "b"))

    store.save_parts(SCOPE, [make_part("a", listed_at=5.0)], revision=1)

    world = store.load(SCOPE)
    assert world
    assert dict(world.catalog.parts) == {"a": make_part("a", listed_at=5.0)}


@pytest.mark.requirement("REG-3")
def test_a_server_that_left_the_settings_takes_its_tools_along(store: Registry) -> None:
    store.save_settings(SCOPE, make_settings("a", "b"))
    store.save_parts(SCOPE, [make_part("a", "x"), make_part("b", "y")], revision=1)

    store.save_settings(SCOPE, make_settings("b"))
    store.save_settings(SCOPE, make_settings("a", "b"))

    assert tools_of(store) == ["b:y"]


@pytest.mark.requirement("REG-3")
def test_a_part_of_a_server_that_is_no_longer_named_is_passed_over(store: Registry) -> None:
    store.save_settings(SCOPE, make_settings("b"))

    store.save_parts(SCOPE, [make_part("a", "x"), make_part("b", "y")], revision=1)

    assert tools_of(store) == ["b:y"]


@pytest.mark.requirement("REG-3")
def test_parts_of_a_scope_without_settings_are_passed_over(store: Registry) -> None:
    store.save_parts(SCOPE, [make_part("a", "x")], revision=1)

    assert store.load(SCOPE) is None


def test_new_settings_leave_the_tools_of_servers_they_still_name(store: Registry) -> None:
    store.save_settings(SCOPE, make_settings("a"))
    store.save_parts(SCOPE, [make_part("a", "x")], revision=3)

    changed = make_settings(make_server("a", description="another"), "b")
    store.save_settings(SCOPE, changed)

    expected = Snapshot(without_secrets(changed), make_catalog(make_part("a", "x"), revision=3))
    assert store.load(SCOPE) == expected


def test_the_revision_never_falls(store: Registry) -> None:
    store.save_settings(SCOPE, make_settings("a"))
    store.save_parts(SCOPE, [make_part("a", "x")], revision=9)

    store.save_parts(SCOPE, [make_part("a", "y")], revision=4)

    world = store.load(SCOPE)
    assert world
    assert world.catalog.revision == 9


@pytest.mark.requirement("REG-5")
def test_scopes_know_nothing_of_each_other(store: Registry) -> None:
    for scope, tool in (("one", "x"), ("two", "y")):
        store.save_settings(scope, make_settings("a"))
        store.save_parts(scope, [make_part("a", tool)], revision=1)

    assert store.forget("one") == 1
    assert tools_of(store, "one") == []
    assert tools_of(store, "two") == ["a:y"]


@pytest.mark.requirement("REG-5")
def test_forgetting_a_server_drops_its_part_and_says_how_many_tools_went(store: Registry) -> None:
    store.save_settings(SCOPE, make_settings("a", "b"))
    store.save_parts(SCOPE, [make_part("a", "x", "y"), make_part("b", "z")], revision=1)

    assert store.forget(SCOPE, [ServerName("a"), ServerName("unknown")]) == 2
    assert store.forget(SCOPE, [ServerName("a")]) == 0

    world = store.load(SCOPE)
    assert world
    assert list(world.catalog.parts) == ["b"]


@pytest.mark.requirement("REG-5")
def test_forgetting_a_scope_keeps_its_settings(store: Registry) -> None:
    store.save_settings(SCOPE, make_settings("a", "b"))
    store.save_parts(SCOPE, [make_part("a", "x", "y"), make_part("b", "z")], revision=1)

    assert store.forget(SCOPE) == 3
    assert store.forget("unknown") == 0

    world = store.load(SCOPE)
    assert world
    assert [server.name for server in world.settings.servers] == ["a", "b"]
    assert not world.catalog.parts


@pytest.mark.requirement("REG-7")
def test_an_era_is_remembered_until_it_is_forgotten(store: Registry) -> None:
    assert store.load_era("c0ffee") is None

    store.save_era("c0ffee", {"era": "old"})
    store.save_era("c0ffee", {"era": "2026-07-28", "name": "caf\u00e9 \ud800"})
    store.save_era("beef", {})
    assert store.load_era("c0ffee") == {"era": "2026-07-28", "name": "caf\u00e9 \ud800"}
    assert store.load_era("beef") == {}

    store.save_era("c0ffee", None)
    store.save_era("never", None)
    assert store.load_era("c0ffee") is None


def test_names_that_are_not_utf_8_are_kept_like_any_other(store: Registry) -> None:
    part = make_part("s\udc80", make_entry("t\udc80", "s\udc80"))
    store.save_settings("/home/\udcff.yaml", make_settings(make_server("s\udc80")))

    store.save_parts("/home/\udcff.yaml", [part], revision=1)

    world = store.load("/home/\udcff.yaml")
    assert world
    assert world.catalog == make_catalog(part, revision=1)


@pytest.mark.requirement("PGS-1")
def test_names_of_strangers_have_no_longest_length(store: Registry) -> None:
    name = random.Random(1).randbytes(30_000).hex()  # so long that no index holds it
    part = make_part("a", make_entry(name, "a"))
    store.save_settings(SCOPE, make_settings(make_server("a")))
    store.save_parts(SCOPE, [part], revision=1)
    acceptance = Acceptance("a", name, "1", "f", "{}")
    store.accept(SCOPE, [acceptance], at=1.0, if_new=True)
    store.count_use(SCOPE, ToolKey(ServerName("a"), ToolName(name)), at=1.0)
    store.save_requests([_written("a", name)])

    assert tools_of(store) == [f"a:{name}"]
    assert store.history(SCOPE, "a") == (acceptance,)
    assert list(store.uses(SCOPE)) == [ToolKey(ServerName("a"), ToolName(name))]
    assert store.written_requests() == (_written("a", name),)


@pytest.mark.requirement("REG-15")
def test_the_index_of_a_world_comes_back_as_it_was_last_saved(private_store: Registry) -> None:
    private_store.save_settings(SCOPE, make_settings("github"))
    private_store.save_index(SCOPE, b"old")
    private_store.save_index(SCOPE, b"new\x00")

    assert private_store.load_index(SCOPE) == b"new\x00"
    assert private_store.load_index("elsewhere") is None


@pytest.mark.requirement("REG-15")
def test_a_database_that_others_write_to_has_no_index(shared_store: Registry) -> None:
    shared_store.save_settings(SCOPE, make_settings("github"))
    shared_store.save_index(SCOPE, b"index")

    assert shared_store.load_index(SCOPE) is None


@pytest.mark.requirement("REG-15")
def test_an_index_without_a_world_is_not_kept(private_store: Registry) -> None:
    private_store.save_index(SCOPE, b"data")

    assert private_store.load_index(SCOPE) is None


@pytest.mark.requirement("REG-16")
def test_vectors_are_kept_by_model_and_text(store: Registry) -> None:
    store.save_settings(SCOPE, make_settings("a"))

    store.save_vectors(SCOPE, "m", {b"1": b"one", b"2": b"two"})
    store.save_vectors(SCOPE, "n", {b"1": b"uno"})

    assert store.vectors("m", [b"1", b"2", b"3"]) == {b"1": b"one", b"2": b"two"}
    assert store.vectors("n", [b"1", b"2"]) == {b"1": b"uno"}
    assert store.vectors("m", [b"2"]) == {b"2": b"two"}


@pytest.mark.requirement("REG-16")
def test_a_text_has_one_vector_under_a_model(store: Registry) -> None:
    store.save_settings(SCOPE, make_settings("a"))
    store.save_vectors(SCOPE, "m", {b"1": b"first"})

    store.save_vectors(SCOPE, "m", {b"1": b"second"})

    assert store.vectors("m", [b"1"]) == {b"1": b"second"}


@pytest.mark.requirement("REG-16")
def test_a_vector_goes_when_no_scope_has_used_it_for_long(store: Registry) -> None:
    for scope in ("one", "two"):
        store.save_settings(scope, make_settings("a"))
    store.save_vectors("one", "m", {b"1": b"one", b"2": b"two"})
    store.save_vectors("one", "n", {b"1": b"uno"})

    assert store.keep_vectors("two", "m", [b"1", b"3"]) == 0
    assert [store.vector_count(scope) for scope in ("one", "two", "three")] == [3, 1, 0]
    pass_period(store)
    assert store.keep_vectors("two", "m", [b"1"]) == 0
    assert store.keep_vectors("one", "n", [b"1"]) == 0
    assert [store.vector_count(scope) for scope in ("one", "two")] == [1, 1]
    pass_period(store)
    assert store.keep_vectors("two", "m", []) == 1
    assert store.vectors("m", [b"1", b"2"]) == {b"1": b"one"}
    pass_period(store)
    assert store.keep_vectors("two", "m", []) == 2
    assert store.vectors("m", [b"1"]) == store.vectors("n", [b"1"]) == {}


@pytest.mark.requirement("REG-16")
@pytest.mark.parametrize("store", back_ends("sqlite", "postgresql"), indirect=True)
def test_many_unused_vectors_are_dropped_a_part_at_a_time_and_whoever_comes_goes_on(
    store: Registry,
) -> None:
    store.save_settings(SCOPE, make_settings("a"))
    unused = {number.to_bytes(4, "big"): b"unused" for number in range(5000)}
    used = {number.to_bytes(4, "big"): b"used" for number in range(5000, 8000)}
    store.save_vectors(SCOPE, "m", unused | used)
    store.keep_vectors(SCOPE, "m", [])
    pass_period(store)
    assert store.keep_vectors(SCOPE, "m", used) == 0
    pass_period(store)

    with kept_vector(store, max(unused)), pytest.raises(RegistryError, match="kept"):
        store.keep_vectors(SCOPE, "m", used)
    left = store.vectors("m", unused)
    assert 0 < len(left) < len(unused)
    assert store.keep_vectors(SCOPE, "m", used) == len(left)
    assert store.keep_vectors(SCOPE, "m", used) == 0

    assert store.vectors("m", unused | used) == used
    assert store.vector_count(SCOPE) == len(used)


def accepted(tool: str, meaning: str, server: str = "a") -> Acceptance:
    definition = canonical_json({"name": tool})
    return Acceptance(server, tool, meaning, f"f-{meaning}", definition)


@pytest.mark.requirement("REG-17")
def test_nothing_is_decided_where_nothing_was(store: Registry) -> None:
    assert store.decisions(SCOPE) == Decisions()
    assert store.history(SCOPE, "a") == ()
    assert store.revoke(SCOPE, ["a"]) == 0
    assert store.revoke(SCOPE, []) == 0


@pytest.mark.requirement("REG-17")
def test_approvals_add_up_until_they_are_taken_back(store: Registry) -> None:
    store.approve(SCOPE, [Approval("a", "1"), Approval("b", "1")], at=1.0)
    store.approve(SCOPE, [Approval("a", "2"), Approval("a", "1")], at=2.0)

    assert store.decisions(SCOPE).approvals == {"a": {"1", "2"}, "b": {"1"}}
    assert store.decisions("elsewhere").approvals == {}
    assert store.revoke("elsewhere", ["a"]) == 0
    assert store.revoke(SCOPE, ["a", "never"]) == 2
    assert store.decisions(SCOPE).approvals == {"b": {"1"}}


@pytest.mark.requirement("REG-17")
def test_what_was_accepted_is_kept_with_its_history(store: Registry) -> None:
    one, other = accepted("x", "1"), accepted("x", "2")
    store.accept(SCOPE, [one, accepted("y", "1"), accepted("x", "1", "b")], at=1.0)
    store.accept(SCOPE, [other], at=2.0)

    assert store.history(SCOPE, "a") == (one, accepted("y", "1"), other)
    assert store.decisions(SCOPE).accepted == {
        "a": {"x": {"1", "f-1", "2", "f-2"}, "y": {"1", "f-1"}},
        "b": {"x": {"1", "f-1"}},
    }


@pytest.mark.requirement("REG-17")
def test_what_is_accepted_again_is_the_newest_again(store: Registry) -> None:
    for meaning in ("1", "2", "1"):
        store.accept(SCOPE, [accepted("x", meaning)], at=1.0)

    assert store.history(SCOPE, "a") == (accepted("x", "2"), accepted("x", "1"))


@pytest.mark.requirement("REG-17")
def test_a_first_sight_counts_for_what_was_never_accepted_only(store: Registry) -> None:
    store.accept(SCOPE, [accepted("x", "1")], at=1.0, if_new=True)

    store.accept(SCOPE, [accepted("x", "2"), accepted("y", "2")], at=2.0, if_new=True)
    store.accept(SCOPE, [], at=3.0, if_new=True)

    assert store.history(SCOPE, "a") == (accepted("x", "1"), accepted("y", "2"))


@pytest.mark.requirement("REG-17")
def test_decisions_outlive_servers_and_worlds(store: Registry) -> None:
    store.save_settings(SCOPE, make_settings("a"))
    store.approve(SCOPE, [Approval("a", "1")], at=1.0)
    store.accept(SCOPE, [accepted("x", "1")], at=1.0)
    before = store.decisions(SCOPE)

    store.forget(SCOPE)
    store.save_settings(SCOPE, make_settings("b"))
    for number in range(60):
        store.save_settings(f"other {number}", make_settings("a"))

    assert store.decisions(SCOPE) == before


@pytest.mark.requirement("REG-17")
def test_names_of_decisions_need_not_be_utf_8(store: Registry) -> None:
    strange = accepted("t\udc80", "1", "s\udc80")
    store.accept("scope\udcff", [strange], at=1.0, if_new=True)
    store.accept("scope\udcff", [accepted("t\udc80", "2", "s\udc80")], at=2.0, if_new=True)
    store.approve("scope\udcff", [Approval("s\udc80", "1")], at=1.0)

    assert store.history("scope\udcff", "s\udc80") == (strange,)
    assert store.decisions("scope\udcff").approvals == {"s\udc80": {"1"}}


def _key(server: str, tool: str) -> ToolKey:
    return ToolKey(ServerName(server), ToolName(tool))


@pytest.mark.requirement("REG-18")
def test_uses_are_counted_for_each_scope_and_fade(store: Registry) -> None:
    for scope in (SCOPE, "other"):
        store.save_settings(scope, make_settings("a", "b"))

    store.count_use(SCOPE, _key("a", "x"), at=0)
    store.count_use(SCOPE, _key("a", "x"), at=30 * 86_400)
    store.count_use(SCOPE, _key("b", "\udc80"), at=5)

    uses = store.uses(SCOPE)
    assert uses == {
        _key("a", "x"): UseCount(1.5, 30 * 86_400),
        _key("b", "\udc80"): UseCount(1, 5),
    }
    assert store.uses("other") == {}


@pytest.mark.requirement("REG-18")
def test_uses_of_an_unknown_server_are_not_kept(store: Registry) -> None:
    store.count_use(SCOPE, _key("a", "x"), at=0)
    store.save_settings(SCOPE, make_settings("a"))
    store.count_use(SCOPE, _key("b", "x"), at=0)

    assert store.uses(SCOPE) == {}


@pytest.mark.requirement("REG-18")
def test_uses_go_with_their_server(store: Registry) -> None:
    store.save_settings(SCOPE, make_settings("a", "b", "c"))
    for server in ("a", "b", "c"):
        store.count_use(SCOPE, _key(server, "x"), at=0)

    store.forget(SCOPE, [ServerName("a")])
    assert set(store.uses(SCOPE)) == {_key("b", "x"), _key("c", "x")}
    store.save_settings(SCOPE, make_settings("a", "b"))
    assert set(store.uses(SCOPE)) == {_key("b", "x")}
    store.forget(SCOPE)
    assert store.uses(SCOPE) == {}


def _written(server: str, tool: str, fingerprint: str = "f", *texts: str) -> WrittenRequests:
    return WrittenRequests(server, tool, fingerprint, texts or ("do it",), "m", 1, 5.0)


@pytest.mark.requirement("ENR-24")
def test_written_requests_are_kept_once_for_each_definition(store: Registry) -> None:
    assert (store.written_requests(), store.requests_mark()) == ((), "")

    store.save_requests([_written("a", "x"), _written("a", "\udc80", "g")])
    store.save_requests([_written("a", "x", "f", "again"), _written("a", "x", "g")])

    found = {(one.tool, one.fingerprint): one for one in store.written_requests()}
    assert found == {
        ("x", "f"): _written("a", "x", "f", "again"),
        ("x", "g"): _written("a", "x", "g"),
        ("\udc80", "g"): _written("a", "\udc80", "g"),
    }


@pytest.mark.requirement("ENR-24")
def test_no_definition_is_lost_because_others_are_written_anew(
    store: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_table, "DEFINITIONS_KEPT", 10)
    store.save_requests([_written("a", f"x{n}") for n in range(6)])
    for n in range(20):
        store.save_requests([_written("a", "x5", "f", f"again {n}")])

    assert len(store.written_requests()) == 6


@pytest.mark.requirement("ENR-24")
def test_every_change_of_written_requests_shows_in_their_mark(store: Registry) -> None:
    marks = [store.requests_mark()]
    for change in (
        lambda: store.save_requests([_written("a", "x")]),
        lambda: store.save_requests([_written("a", "x", "f", "other")]),
        lambda: store.save_requests([_written("b", "y")]),
        lambda: store.forget_requests([("b", "y")]),
        lambda: store.save_requests([_written("b", "y")]),
    ):
        change()
        marks.append(store.requests_mark())

    assert all(one != other for one, other in pairwise(marks))
    assert store.requests_mark() not in marks[:-1]


@pytest.mark.requirement("ENR-24", "ENR-27")
def test_written_requests_stay_when_servers_go_and_are_forgotten_by_name(store: Registry) -> None:
    store.save_settings(SCOPE, make_settings("a"))
    store.save_requests([_written("a", "x"), _written("a", "y"), _written("a", "y", "g")])

    store.forget(SCOPE)
    store.save_settings(SCOPE, make_settings())

    assert len(store.written_requests()) == 3
    assert store.forget_requests([("a", "y"), ("b", "x")]) == 2
    assert store.written_requests() == (_written("a", "x"),)
    assert store.forget_requests() == 1
    assert store.requests_mark() == ""


@pytest.mark.requirement("REG-30")
def test_a_lease_is_held_by_one_and_its_fence_only_grows(store: Registry) -> None:
    first = store.acquire_lease("http", "one")
    assert first == store.lease("http") == Lease("http", "one", 1)
    assert store.acquire_lease("http", "two") is None
    taken = store.acquire_lease("http", "two", instead_of=first)
    assert taken == Lease("http", "two", 2)
    assert store.acquire_lease("http", "three", instead_of=first) is None  # taken since
    store.release_lease(first)  # no longer its own
    assert store.lease("http") == taken

    store.release_lease(taken)

    assert store.lease("http") == Lease("http", "", 2)
    assert store.acquire_lease("http", "one") == Lease("http", "one", 3)
    assert store.acquire_lease("other", "two") == Lease("other", "two", 1)
