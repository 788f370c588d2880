"""L3: the files that were approved have other content now, under the same names."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.attacks.conftest import TRAP, Repository
from tests.attacks.exchanges import OTHER_THINGS, PLAIN, SCRIPTS, springing, written
from tests.kinds import thinned

FOUR = 4


@pytest.mark.requirement("TRU-50")
@pytest.mark.parametrize("way", thinned(SCRIPTS))
def test_an_approved_file_with_other_content_is_not_run(repository: Repository, way: str) -> None:
    script = SCRIPTS[way]
    script.write(repository, is_springing=False)
    script.configure(repository)
    shown = repository("trust", "--yes")
    assert (shown.code, script.file in shown.out) == (0, True)
    assert repository("refresh", "db").code != FOUR

    script.write(repository, is_springing=True)
    done = repository("refresh", "db")

    assert done.code == FOUR
    assert f"the file {script.file} changed since it was approved on 2" in done.err
    assert "discovery trust" in done.err
    assert not repository.is_sprung


@pytest.mark.requirement("TRU-50")
def test_a_file_that_a_variable_of_the_entry_names_is_bound(repository: Repository) -> None:
    hook = written(repository.path / "hook.sh", ":\n")
    variables = {"BASH_ENV": "./hook.sh", "ENV": "./hook.sh", "HOOK": "${HOOK}"}
    repository.configure(db={"command": "sh", "args": ["-c", '. "$ENV"'], "env": variables})
    repository("trust", "--yes")
    assert repository("refresh", "db").code != FOUR

    written(hook, springing(repository))

    assert repository("refresh", "db").code == FOUR
    assert not repository.is_sprung


@pytest.mark.requirement("TRU-4")
@pytest.mark.parametrize("named", thinned(["folder", "cwd", "variable"]))
def test_a_folder_without_a_value_takes_no_consent_when_it_has_one(
    repository: Repository, named: str
) -> None:
    written(repository.path / "part" / "srv.sh", f"touch {repository.mark}\n")
    entry = {
        "folder": {"command": "env", "args": ["--chdir", "${PART}", "sh", "srv.sh"]},
        "cwd": {"command": "sh", "args": ["srv.sh"], "cwd": "${PART}"},
        "variable": {"command": "sh", "args": ["-c", '. "$A"'], "env": {"A": "${PART}/srv.sh"}},
    }[named]
    repository.configure(db=entry)
    assert repository("trust", "--yes").code == 0

    done = repository("refresh", "db", PART=str(repository.path / "part"))

    assert done.code != FOUR
    assert repository.is_sprung


@pytest.mark.requirement("TRU-4")
@pytest.mark.parametrize("script", thinned(["srv.sh", "srv"]))
def test_a_program_that_is_installed_later_takes_no_consent(
    repository: Repository, script: str
) -> None:
    """Neither does the project's file that it runs, which was there when it was approved."""
    written(repository.path / script, f"touch {repository.mark}\n")
    repository.configure(db={"command": "ksh", "args": [script]})
    path = f"{repository.home}/bin:{os.environ['PATH']}"
    assert repository("trust", "--yes", PATH=path).code == 0

    written(repository.home / "bin" / "ksh", '#!/bin/sh\nexec sh "$@"\n', mode=0o755)
    done = repository("refresh", "db", PATH=path)

    assert done.code != FOUR
    assert repository.is_sprung


@pytest.mark.requirement("TRU-50")
def test_what_changed_can_be_approved_and_what_was_stays_so(repository: Repository) -> None:
    repository.configure(trap=repository.trap())
    repository("trust", "--yes")
    script = repository.path / "trap.py"
    script.write_text(TRAP + "\n", "utf-8")

    assert repository("refresh").code == FOUR
    asked = repository("trust", "--yes")
    assert "the file trap.py changed since" in asked.out
    assert repository("refresh").code == 0
    script.write_text(TRAP, "utf-8")
    assert repository("refresh").code == 0


@pytest.mark.requirement("TRU-50")
def test_time_and_size_of_a_file_do_not_vouch_for_it(repository: Repository) -> None:
    script = written(repository.path / "srv.sh", f": {repository.mark}\n")
    repository.configure(db={"command": "sh", "args": ["srv.sh"]})
    repository("trust", "--yes")
    assert repository("refresh").code != FOUR
    before = script.stat()

    with script.open("r+") as file:
        file.write(">")
    os.utime(script, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert script.stat().st_size == before.st_size
    assert repository("refresh").code == FOUR
    assert not repository.is_sprung


@pytest.mark.requirement("TRU-50")
@pytest.mark.parametrize("exchange", thinned(OTHER_THINGS))
def test_another_thing_in_the_place_of_a_file_is_not_run(
    repository: Repository, exchange: Callable[[Repository], None]
) -> None:
    PLAIN.write(repository, is_springing=False)
    PLAIN.configure(repository)
    repository("trust", "--yes")

    exchange(repository)

    assert repository("refresh").code == FOUR
    assert not repository.is_sprung


@pytest.mark.requirement("TRU-50")
def test_a_folder_that_leads_elsewhere_now_is_another(repository: Repository) -> None:
    written(repository.home / "lib" / "srv.sh", "exit 0\n")
    written(repository.home / "evil" / "srv.sh", springing(repository))
    (repository.path / "dist").symlink_to(repository.home / "lib")
    repository.configure(db={"command": "sh", "args": ["dist/srv.sh"]})
    repository("trust", "--yes")
    assert repository("refresh").code != FOUR

    (repository.path / "dist").unlink()
    (repository.path / "dist").symlink_to(repository.home / "evil")

    assert repository("refresh").code == FOUR
    assert not repository.is_sprung


@pytest.mark.requirement("TRU-50")
def test_a_file_that_was_not_there_is_not_what_was_approved(repository: Repository) -> None:
    repository.configure(db={"command": "sh", "args": ["dist/index.sh"]})
    repository("trust", "--yes")

    written(repository.path / "dist" / "index.sh", springing(repository))

    assert repository("refresh").code == FOUR
    assert not repository.is_sprung


@pytest.mark.requirement("TRU-50")
def test_a_program_of_the_project_that_was_not_there_is_not_run(repository: Repository) -> None:
    repository.configure(db={"command": "./srv"})
    repository("trust", "--yes")

    written(repository.path / "srv", springing(repository), mode=0o755)

    assert repository("refresh").code == FOUR
    assert not repository.is_sprung


@pytest.mark.requirement("TRU-50")
def test_a_file_of_data_may_change(repository: Repository) -> None:
    data = written(repository.path / "data.db", "1")
    repository.configure(trap=repository.trap("--db", str(data), f"--settings={data}"))
    repository("trust", "--yes")

    written(data, "2")

    assert repository("refresh").code == 0


@pytest.mark.requirement("TRU-50")
@pytest.mark.parametrize(
    ("command", "args"),
    thinned(
        [
            ("python3", ["-m", "srv", "data.txt"]),
            ("python3", ["srv.py", "data.txt", "data"]),
            ("python3", ["-c", "import srv", "data.txt"]),
            ("python3", ["-V"]),
            ("npx", ["srv", "data", "data.txt", "--lang=python"]),
        ]
    ),
)
def test_data_beside_what_runs_may_change(
    repository: Repository, command: str, args: list[str]
) -> None:
    written(repository.path / "srv.py", "raise SystemExit")
    files = [written(repository.path / name, "1") for name in ("data.txt", "data/index.js")]
    variables = {"DATA": "./data.txt", "LANGUAGE": "python"}
    repository.configure(db={"command": command, "args": args, "env": variables})
    repository("trust", "--yes")

    for file in files:
        written(file, "2")

    assert repository("refresh").code != FOUR


@pytest.mark.requirement("TRU-50")
def test_what_lies_above_in_the_repository_is_the_projects_too(repository: Repository) -> None:
    (repository.path / ".git").mkdir()
    script = written(repository.path / "srv.sh", "exit 0\n")
    inside = repository.path / "part"
    written(inside / "discovery.yaml", 'servers: {db: {command: sh, args: ["../srv.sh"]}}')
    below = repository.clone(inside / "x").path.parent  # only to have a working folder
    there = type(repository)(below, repository.home, repository.forked)
    there("trust", "--yes")

    written(script, springing(repository))

    assert there("refresh").code == FOUR
    assert not repository.is_sprung


@pytest.mark.requirement("TRU-50")
def test_a_running_gateway_starts_no_file_that_changed_meanwhile(repository: Repository) -> None:
    repository.configure(trap=repository.trap())
    repository("trust", "--yes")
    assert repository("refresh").code == 0
    repository.mark.unlink()
    written(repository.path / "trap.py", TRAP + "\n")

    [answer] = repository.served(("execute_tool", {"tool": "trap:spring", "arguments": {}}))

    text = answer["result"]["content"][0]["text"]
    assert "not what was approved" in text
    assert str(repository.path) not in str(answer)
    assert not repository.is_sprung
