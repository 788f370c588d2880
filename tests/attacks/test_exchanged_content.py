"""The files that were approved have other content now, under the same names."""

from __future__ import annotations

import os

import pytest

from tests.attacks.conftest import TRAP, Repository
from tests.attacks.exchanges import EXCHANGES, Exchange, springing, written
from tests.kinds import thinned

NOT_APPROVED = 4


@pytest.mark.requirement("TRU-50")
@pytest.mark.parametrize("exchange", thinned(EXCHANGES))
def test_an_approved_file_with_other_content_is_not_run(
    repository: Repository, exchange: Exchange
) -> None:
    exchange.script.configure(repository)
    if exchange.is_there:
        exchange.script.write(repository, is_springing=False)
    shown = repository("review", "servers", "--yes")
    assert (shown.code, exchange.script.file in shown.out) == (0, True)
    if exchange.is_there:
        assert repository("refresh").code != NOT_APPROVED

    exchange.after(repository)
    done = repository("refresh")

    assert done.code == NOT_APPROVED
    assert "discovery review servers" in done.err
    assert not repository.is_sprung


@pytest.mark.requirement("TRU-50")
def test_neither_time_nor_size_nor_a_running_gateway_vouches_for_a_file(
    repository: Repository,
) -> None:
    repository.configure(trap=repository.trap())
    script = repository.path / "trap.py"
    written(script, f"# 1\n{TRAP}")
    repository("review", "servers", "--yes")
    assert repository("refresh").code == 0
    repository.mark.unlink()
    before = script.stat()

    with script.open("r+") as file:
        file.write("# 2")
    os.utime(script, ns=(before.st_atime_ns, before.st_mtime_ns))

    [answer] = repository.served(("execute_tool", {"tool": "trap:spring", "arguments": {}}))
    assert "not what was approved" in answer["result"]["content"][0]["text"]
    assert str(repository.path) not in str(answer)
    assert not repository.is_sprung
    assert "the file trap.py changed since" in repository("review", "servers", "--yes").out
    assert repository("refresh").code == 0


@pytest.mark.requirement("TRU-50")
def test_what_lies_above_in_the_repository_or_a_variable_names_is_bound(
    repository: Repository,
) -> None:
    (repository.path / ".git").mkdir()
    script = written(repository.path / "srv.sh", "exit 0\n")
    inside = repository.clone(repository.path / "part")
    hook = written(inside.path / "hook.sh", ":\n")
    hooked = {"command": "sh", "args": ["-c", '. "$ENV"'], "env": {"ENV": "./hook.sh"}}
    inside.configure(db={"command": "sh", "args": ["../srv.sh"]}, hooked=hooked)
    inside("review", "servers", "--yes")

    written(script, springing(repository))
    written(hook, springing(repository))

    assert inside("refresh", "db").code == NOT_APPROVED
    assert inside("refresh", "hooked").code == NOT_APPROVED
    assert not repository.is_sprung


@pytest.mark.requirement("TRU-50")
def test_data_may_change(repository: Repository) -> None:
    data = [written(repository.path / name, "1") for name in ("data.db", "d.txt", "data/index.js")]
    args = ["--db", "data.db", "--settings=d.txt", "data"]
    repository.configure(trap=repository.trap(*args, env={"DATA": "./d.txt", "LANG": "python"}))
    repository("review", "servers", "--yes")

    for file in data:
        written(file, "2")

    assert repository("refresh").code == 0
