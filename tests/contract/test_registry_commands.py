"""`discovery registry`, and what `doctor` writes of a database."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tests.contract.discovery import Discovery
from tests.forked import Preloaded
from tests.postgres import PASSWORD, PostgresServer


@pytest.fixture
def discovery(tmp_path: Path, forked: Preloaded) -> Discovery:
    return Discovery(tmp_path, forked)


@pytest.mark.requirement("PGS-18", "CAC-5")
def test_a_registry_is_copied_and_used_by_typing_two_lines(
    postgres_server: PostgresServer, discovery: Discovery
) -> None:
    url = postgres_server.create_database()
    discovery.configure()
    discovery("refresh")
    before = discovery("list", "--json").json
    own = [("secrets", "list"), ("logs",), ("metrics",)]
    assert not any("this machine alone" in discovery(*words).err for words in own)
    assert not any(discovery(*words, "--json").json["others_have_their_own"] for words in own)

    copied = discovery("registry", "copy", "--to", "${DATABASE_URL}", DATABASE_URL=url)
    assert (copied.code, "digests are those of the original" in copied.err) == (0, True)
    discovery.configure(rules='registry: {url: "${DATABASE_URL}"}\n')
    after = discovery("list", "--json", DATABASE_URL=url).json

    assert after == before
    assert discovery.starts == 1
    info = discovery("registry", "info", "--json", DATABASE_URL=url).json
    assert info["database"]["configurations"] == 1
    assert [(server["name"], server["tool_count"]) for server in info["servers"]] == [("demo", 4)]
    assert info["place"].startswith("postgresql://gateway@127.0.0.1:")
    assert "call log and metrics" in info["on_this_machine"]
    assert all("this machine alone" in discovery(*words, DATABASE_URL=url).err for words in own)
    forms = [discovery(*words, "--json", DATABASE_URL=url).json for words in own]
    assert all(form["others_have_their_own"] for form in forms)
    back = discovery(
        "registry", "copy", "--to", f"sqlite:///{discovery.home}/back.db", DATABASE_URL=url
    )
    assert back.code == 0


@pytest.mark.requirement("PGS-9")
def test_the_first_search_on_a_machine_keeps_its_index(
    postgres_server: PostgresServer, discovery: Discovery
) -> None:
    url = postgres_server.create_database()
    discovery.configure(rules='name: team\nregistry: {url: "${DATABASE_URL}"}\n')
    assert discovery("refresh", DATABASE_URL=url).code == 0
    shutil.rmtree(discovery.home / "data")

    assert discovery("search", "echo", DATABASE_URL=url).code == 0

    assert (discovery.home / "data").stat().st_mode & 0o077 == 0
    copy = next((discovery.home / "data" / "shared").rglob("*.db"))
    with closing(sqlite3.connect(copy)) as database:
        assert database.execute("SELECT count(*) FROM indexes").fetchone() == (1,)


@pytest.mark.requirement("PGS-17")
def test_a_copy_shows_on_a_terminal_what_it_is_at(discovery: Discovery) -> None:
    discovery.configure()
    discovery("refresh")

    copied = discovery.at_terminal("registry", "copy", "--to", f"sqlite:///{discovery.home}/new.db")

    assert copied.code == 0
    assert "comparing the copy with the original" in copied.shown
    assert copied.shown.rstrip().endswith("its digests are those of the original")


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
        assert "`${DATABASE_URL}`" in bad.err + bad.out
        assert "registry check" not in bad.err + bad.out
        assert not any(secret in bad.err + bad.out for secret in (PASSWORD, "hor5e"))


@pytest.mark.requirement("PGS-18")
def test_a_look_at_an_older_database_does_not_update_it(
    postgres_server: PostgresServer, discovery: Discovery
) -> None:
    url = postgres_server.create_database()
    discovery.configure(rules='registry: {url: "${DATABASE_URL}"}\n')
    assert discovery("registry", "migrate", DATABASE_URL=url).code == 0
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("DROP SCHEMA discovery CASCADE; CREATE SCHEMA discovery")
        tables = "SELECT 1 FROM pg_tables WHERE schemaname = 'discovery'"

        for word in ("check", "info"):
            shown = discovery("registry", word, DATABASE_URL=url)
            assert (shown.code, "`discovery registry migrate`" in shown.out) == (0, True)
            assert database.execute(tables).fetchone() is None


@pytest.mark.requirement("PGS-16")
def test_a_password_is_not_taken_as_an_argument(discovery: Discovery) -> None:
    discovery.configure()

    refused = discovery("registry", "copy", "--to", "postgresql://u:hunter2@127.0.0.1/db")

    assert refused.code == 1
    assert "--to '${DATABASE_URL}'" in refused.err
