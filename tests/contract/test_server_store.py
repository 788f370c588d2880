"""What every registry back-end promises about registered servers and switches."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.errors import RegistryError
from discovery_engine.registry.fallback import FallbackRegistry
from discovery_engine.registry.protocols import Registry
from discovery_engine.registry.server_records import PackagePin, RegisteredServer, ServerSwitch
from discovery_engine.registry.sqlite.decision_log import last_known
from discovery_engine.registry.sqlite.journal import Journal
from discovery_engine.registry.sqlite.registry import open_sqlite
from discovery_engine.trust.decisions import Approval
from tests.contract import damages
from tests.contract.damages import DATABASE, JOURNAL
from tests.rows import rows

SCOPE = "/home/someone/discovery.yaml"
OTHER = "/home/someone/else.yaml"
PIN = PackagePin("npm", "@acme/mail", "1.2.3", "sha512-00", "npx")
MAIL = RegisteredServer(
    "mail",
    {"command": "npx", "args": ["-y", "@acme/mail@1.2.3"], "tags": ["post"], "description": "Mail"},
    "marketplace",
    PIN,
    "acme/mail",
    5.0,
    6.0,
)
TIME = RegisteredServer("time", {"url": "https://time.example.com/mcp"}, created_at=1.0)
DAMAGES = [pytest.param(damage, id=name) for name, damage in damages.DAMAGES.items()]

names = st.text(st.characters(), min_size=1, max_size=5)
entries = st.dictionaries(names, st.text(st.characters(exclude_categories=["Cs"])), max_size=3)
servers = st.builds(RegisteredServer, names, entries, created_at=st.floats(0, 1e10))


@pytest.mark.requirement("OWN-1")
def test_what_is_registered_comes_back_in_its_order(store: Registry) -> None:
    store.save_servers(SCOPE, [MAIL, TIME])
    store.save_servers(OTHER, [replace(MAIL, source="setup")])
    newer = replace(MAIL, package=None, updated_at=9.0)
    store.save_servers(SCOPE, [newer])

    assert store.registered_servers(SCOPE) == (newer, TIME)
    assert store.registered_servers(OTHER) == (replace(MAIL, source="setup"),)
    assert (MAIL.description, MAIL.tags, str(PIN)) == ("Mail", ("post",), "@acme/mail@1.2.3")


@pytest.mark.requirement("OWN-1")
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(saved=st.lists(servers, max_size=4, unique_by=lambda one: one.name), scope=names)
def test_any_server_comes_back_as_it_was_saved(
    store: Registry, saved: list[RegisteredServer], scope: str
) -> None:
    store.delete_servers(scope, [one.name for one in store.registered_servers(scope)])

    store.save_servers(scope, saved)

    assert list(store.registered_servers(scope)) == saved


@pytest.mark.requirement("OWN-1")
def test_deleting_counts_what_was_there(store: Registry) -> None:
    store.save_servers(SCOPE, [MAIL, TIME])

    assert store.delete_servers(SCOPE, ["mail", "mail", "nobody"]) == 1
    assert store.delete_servers(OTHER, ["time"]) == 0

    assert store.registered_servers(SCOPE) == (TIME,)


@pytest.mark.requirement("OWN-1")
def test_a_switch_is_set_and_dropped(store: Registry) -> None:
    store.set_switches(SCOPE, {"mail": False, "time": True}, at=1.0)
    store.set_switches(SCOPE, {"mail": False, "time": None, "nobody": None}, at=2.0)

    assert store.switches(SCOPE) == {"mail": ServerSwitch(is_wanted=False, at=1.0)}
    assert store.switches(OTHER) == {}

    store.set_switches(SCOPE, {"mail": True}, at=3.0)

    assert store.switches(SCOPE) == {"mail": ServerSwitch(is_wanted=True, at=3.0)}


@pytest.mark.requirement("OWN-2")
def test_the_mark_changes_with_each_change_of_a_scope_and_with_nothing_else(
    store: Registry,
) -> None:
    assert store.servers_mark(SCOPE) == ""

    def mark_after(change: Callable[[], object]) -> str:
        change()
        return store.servers_mark(SCOPE)

    marks = [
        mark_after(lambda: store.save_servers(SCOPE, [MAIL])),
        mark_after(lambda: store.set_switches(SCOPE, {"mail": False}, at=1.0)),
        mark_after(lambda: store.delete_servers(SCOPE, ["mail"])),
    ]
    assert len({"", *marks}) == 4

    store.set_switches(SCOPE, {"mail": False}, at=2.0)
    store.delete_servers(SCOPE, ["mail"])
    store.save_servers(SCOPE, [])
    store.save_servers(OTHER, [TIME])
    store.approve(SCOPE, [Approval("mail", "1d")], at=3.0)

    assert store.servers_mark(SCOPE) == marks[-1]


@pytest.mark.requirement("OWN-2")
def test_each_change_is_a_decision_with_a_number(store: Registry) -> None:
    before = store.newest_decision()

    store.save_servers(SCOPE, [MAIL, TIME])
    store.set_switches(SCOPE, {"mail": False}, at=1.0)
    store.delete_servers(SCOPE, ["time"])

    assert store.newest_decision() == before + 4


@pytest.mark.requirement("OWN-3")
@rows("damage", DAMAGES)
@rows("copy", [DATABASE, JOURNAL])
def test_one_copy_restores_the_servers_that_the_other_lost(
    tmp_path: Path, copy: str, damage: Callable[[Path], None]
) -> None:
    with open_sqlite(tmp_path / DATABASE) as store:
        store.save_servers(SCOPE, [MAIL, TIME])
        store.delete_servers(SCOPE, ["time"])
        store.set_switches(SCOPE, {"mail": False, "a": True}, at=1.0)
        store.set_switches(SCOPE, {"a": None}, at=2.0)

    damage(tmp_path / copy)

    with open_sqlite(tmp_path / DATABASE) as store:
        assert store.registered_servers(SCOPE) == (MAIL,)
        assert store.switches(SCOPE) == {"mail": ServerSwitch(is_wanted=False, at=1.0)}
        assert store.servers_mark(SCOPE)
    assert Journal(tmp_path / JOURNAL).verified()


@pytest.mark.requirement("OWN-3")
@rows("column", ["content", "name"])
def test_a_row_that_was_changed_is_restored_before_it_is_read(tmp_path: Path, column: str) -> None:
    with open_sqlite(tmp_path / DATABASE) as store:
        store.save_servers(SCOPE, [MAIL])
        content = json.dumps({"name": "mail", "entry": {"command": "evil"}})
        changed = content if column == "content" else "other"
        sql = f"UPDATE registered_servers SET {column} = ?"
        store._database.write(lambda db: db.execute(sql, (changed,)))

        assert store.registered_servers(SCOPE) == (MAIL,)


@pytest.mark.requirement("OWN-3")
def test_another_mark_follows_a_restored_copy(tmp_path: Path) -> None:
    with open_sqlite(tmp_path / DATABASE) as store:
        store.save_servers(SCOPE, [MAIL])
        mark = store.servers_mark(SCOPE)
    shutil.copy(tmp_path / DATABASE, tmp_path / "older")
    with open_sqlite(tmp_path / DATABASE) as store:
        store.save_servers(SCOPE, [TIME])
    shutil.copy(tmp_path / "older", tmp_path / DATABASE)

    with open_sqlite(tmp_path / DATABASE) as store:
        assert store.registered_servers(SCOPE) == (MAIL, TIME)
        assert store.servers_mark(SCOPE) != mark


@pytest.mark.requirement("OWN-3")
def test_a_registry_that_cannot_be_opened_leaves_its_servers_in_force_and_takes_no_other(
    tmp_path: Path,
) -> None:
    with open_sqlite(tmp_path / DATABASE) as store:
        store.save_servers(SCOPE, [MAIL])
    known = last_known(tmp_path / DATABASE)

    fallback = FallbackRegistry("the disk is gone", hint="wait", known=known)

    assert fallback.registered_servers(SCOPE) == (MAIL,)
    for refused in (
        lambda: fallback.save_servers(SCOPE, [TIME]),
        lambda: fallback.delete_servers(SCOPE, ["mail"]),
        lambda: fallback.set_switches(SCOPE, {"mail": False}, at=1.0),
    ):
        with pytest.raises(RegistryError, match="the disk is gone"):
            refused()
    assert fallback.registered_servers(SCOPE) == (MAIL,)
