"""`discovery registry`, and what `doctor` writes of a database."""

from __future__ import annotations

import json
from pathlib import Path

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
    back = discovery(
        "registry", "copy", "--to", f"sqlite:///{discovery.home}/back.db", DATABASE_URL=url
    )
    assert back.code == 0


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
def test_a_registry_that_a_file_names_which_is_not_trusted_is_said_to_be_ignored(
    discovery: Discovery,
) -> None:
    discovery.configure(rules='registry: {url: "postgresql://u@127.0.0.1:1/x"}\n')
    (discovery.home / "discovery.yaml").chmod(0o666)

    checked, shown = discovery("registry", "check"), discovery("registry", "info")
    form = discovery("registry", "check", "--json").json

    ignored = "registry.url: is ignored, because this file is not trusted"
    assert ignored in checked.err
    assert ignored in shown.err
    assert form["ignored"] == [ignored]
    assert "all is well" not in checked.err


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
    assert "its address is that of `registry.url`" in " ".join(gone.out.split())


@pytest.mark.requirement("OWN-13")
def test_a_switch_in_a_file_says_that_other_machines_have_files_of_their_own(
    postgres_server: PostgresServer, discovery: Discovery
) -> None:
    url = postgres_server.create_database()
    discovery.configure(rules='registry: {url: "${DATABASE_URL}"}\n')

    in_file, in_registry = (
        discovery("disable", "demo", "--to", place, DATABASE_URL=url)
        for place in ("file", "registry")
    )

    assert (in_file.code, in_registry.code) == (0, 0)
    assert "`--to registry` switches it off on all of them" in in_file.err
    assert "other machines" not in in_registry.err


@pytest.mark.requirement("PGS-17")
def test_a_database_to_copy_to_that_is_gone_is_not_looked_for_elsewhere(
    postgres_server: PostgresServer, discovery: Discovery
) -> None:
    url = postgres_server.create_database().replace("horse", "hor5e")
    discovery.configure()

    refused = discovery("registry", "copy", "--to", "${NEW_URL}", NEW_URL=url)

    assert refused.code == 5
    assert "its address is that of `--to`" in refused.err
    assert "`${NEW_URL}`" in refused.err


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
    assert "call log and metrics" in discovery("registry", "info").err
