"""The commands of the specification that back up a registry in PostgreSQL and restore it."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from discovery_engine.store.backends import open_database
from discovery_engine.store.transfer import content_of
from tests.factories import make_part, make_settings
from tests.postgres import PostgresServer
from tests.rows import rows
from tests.store.test_registry_copy import SCOPE, fill

ROOT = Path(__file__).parents[2]
SPEC = (ROOT / "specs/postgres.md").read_text("utf-8").partition("\n## Backup\n")[2]
EXAMPLE = (ROOT / "examples/fleet/README.md").read_text("utf-8")
DUMP, RESTORE = re.findall(r"```sh\n(.*?)```", SPEC, re.DOTALL)


def run(server: PostgresServer, folder: Path, command: str, **environ: str) -> str:
    """What it writes to stderr; nothing if it succeeds."""
    environ |= {"PATH": f"{server.programs}:{os.defpath}", "LC_ALL": "C"}
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    return done.stderr if done.returncode else ""


@pytest.mark.requirement("PGS-35")
@rows("has_pgvector", [True, False])
def test_a_backup_is_restored_with_all_that_is_copied(
    postgres_server: PostgresServer, tmp_path: Path, *, has_pgvector: bool
) -> None:
    url, new = postgres_server.create_database(), postgres_server.create_database()
    if has_pgvector:
        with postgres_server.admin(new.rpartition("/")[2]) as admin:
            admin.execute("CREATE EXTENSION vector")
    with closing(open_database(url)) as original:
        fill(original)
        expected = content_of(original)

    assert run(postgres_server, tmp_path, DUMP, DATABASE_URL=url) == ""
    assert run(postgres_server, tmp_path, RESTORE, NEW_DATABASE_URL=new) == ""

    with closing(open_database(new)) as restored, closing(open_database(new)) as other:
        assert content_of(restored) == expected
        assert restored.load(SCOPE)
        # What is saved from now on is newer than what was restored.
        other.save_parts(SCOPE, [make_part("a", "x")], revision=9)
        assert [part.server for part in restored.changed_parts(SCOPE)] == ["a"]


@pytest.mark.requirement("PGS-35")
def test_nothing_is_restored_over_a_registry(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    url, new = postgres_server.create_database(), postgres_server.create_database()
    with closing(open_database(url)) as original, closing(open_database(new)) as other:
        fill(original)
        other.save_settings("mine", make_settings("a"))
        expected = content_of(other)
        assert run(postgres_server, tmp_path, DUMP, DATABASE_URL=url) == ""

        refused = run(postgres_server, tmp_path, RESTORE, NEW_DATABASE_URL=new)

        assert refused != ""
        assert content_of(other) == expected


def test_the_example_of_a_fleet_has_the_same_options() -> None:
    for command in (DUMP, RESTORE):
        for option in re.findall(r"--(?:schema|no|exclude|single|set)\S*", command):
            assert option in EXAMPLE
