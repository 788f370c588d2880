from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from discovery_engine.errors import ConfigurationError
from discovery_server.tokens import find_tokens, parse_tokens
from tests.rows import rows

GIVEN = "a-token-from-a-password-manager"


def problem_of(find: Callable[[], object]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        find()
    [problem] = caught.value.problems
    return str(problem)


@pytest.mark.requirement("SRV-23")
def test_a_token_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        first = find_tokens({}, data_dir=tmp_path / "data")
    finally:
        os.umask(before)
    second = find_tokens({"DISCOVERY_DATA_DIR": str(tmp_path / "data")})
    file = tmp_path / "data" / "http-token"

    assert first.values == second.values == (file.read_text("ascii").strip(),)
    assert len(first.values[0]) == 43
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert os.listdir(file.parent) == ["http-token"]  # noqa: PTH208
    assert any(str(file) in notice for notice in first.notices)


@pytest.mark.requirement("SRV-23")
def test_gateways_that_start_at_once_agree_on_a_token(tmp_path: Path) -> None:
    program = """
import sys
from discovery_server.tokens import find_tokens
sys.stdin.readline()
print(find_tokens({}, data_dir=sys.argv[1]).values[0])
"""
    command = [sys.executable, "-c", program, str(tmp_path / "data")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    gateways = [subprocess.Popen(command, **pipes) for _ in range(6)]
    for gateway in gateways:
        gateway.stdin.write("go\n")
        gateway.stdin.flush()
    tokens = {gateway.communicate(timeout=60)[0] for gateway in gateways}

    assert len(tokens) == 1
    assert tokens == {(tmp_path / "data" / "http-token").read_text("ascii")}


@pytest.mark.requirement("SRV-23")
def test_a_new_token_takes_the_place_of_whatever_was_there(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("of another program")
    first = find_tokens({}, data_dir=tmp_path)
    second = find_tokens({}, data_dir=tmp_path, renew=True)
    (tmp_path / "http-token").unlink()
    (tmp_path / "http-token").symlink_to(elsewhere)
    third = find_tokens({}, data_dir=tmp_path, renew=True)

    assert len({*first.values, *second.values, *third.values}) == 3
    assert find_tokens({}, data_dir=tmp_path).values == third.values
    assert elsewhere.read_text() == "of another program"


@pytest.mark.requirement("SRV-23")
def test_without_a_place_for_a_file_the_token_holds_for_one_run(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")

    first = find_tokens({}, data_dir=tmp_path / "data")
    second = find_tokens({}, data_dir=tmp_path / "data")

    assert first.values != second.values
    assert "holds for this run only" in first.notices[0]
    assert "cannot be replaced" in problem_of(
        lambda: find_tokens({}, data_dir=tmp_path / "data", renew=True)
    )


def make_link(file: Path) -> None:
    file.rename(file.with_name("real"))
    file.symlink_to(file.with_name("real"))


def make_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.requirement("SRV-25")
@rows(
    ("spoil", "words"),
    [
        pytest.param(make_link, "is a symbolic link", id="link"),
        pytest.param(make_pipe, "is no regular file", id="pipe"),
        pytest.param(lambda file: file.write_text(""), "is empty", id="empty"),
        pytest.param(lambda file: file.write_text("\n \n"), "is empty", id="blank"),
        pytest.param(lambda file: file.write_text("abc"), "is damaged", id="cut short"),
        pytest.param(lambda file: file.write_bytes(b"\xff\x00" * 30), "is damaged", id="garbage"),
        pytest.param(lambda file: file.write_text("é" * 43), "is damaged", id="not ASCII"),
        pytest.param(lambda file: file.write_bytes(b"a" * 70_000), "is larger", id="large"),
        pytest.param(lambda file: file.chmod(0o620), "by another user", id="writable by a group"),
        pytest.param(lambda file: file.chmod(0o602), "by another user", id="writable by all"),
    ],
)
def test_a_kept_token_that_is_not_as_we_left_it_is_refused(
    spoil: Callable[[Path], object], words: str, tmp_path: Path
) -> None:
    find_tokens({}, data_dir=tmp_path)
    spoil(tmp_path / "http-token")

    assert words in problem_of(lambda: find_tokens({}, data_dir=tmp_path))


@pytest.mark.requirement("SRV-25")
@rows("mode", [0o640, 0o604, 0o644])
def test_a_kept_token_that_others_could_read_is_made_private_and_told(
    mode: int, tmp_path: Path
) -> None:
    kept = find_tokens({}, data_dir=tmp_path).values
    (tmp_path / "http-token").chmod(mode)

    found = find_tokens({}, data_dir=tmp_path)

    assert found.values == kept
    assert (tmp_path / "http-token").stat().st_mode & 0o777 == 0o600
    assert any("other users could read" in notice for notice in found.notices)


@pytest.mark.requirement("SRV-25")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_file_is_refused_but_not_that_of_the_folders_owner(tmp_path: Path) -> None:
    kept = find_tokens({}, data_dir=tmp_path).values
    os.chown(tmp_path / "http-token", 4321, 4321)

    assert "by another user" in problem_of(lambda: find_tokens({}, data_dir=tmp_path))

    os.chown(tmp_path, 4321, 4321)

    assert find_tokens({}, data_dir=tmp_path).values == kept


@pytest.mark.requirement("SRV-25")
def test_a_file_of_the_owner_may_be_a_link_and_hold_several_tokens(tmp_path: Path) -> None:
    mounted = tmp_path / "mounted"
    mounted.write_text(f"# first\n{GIVEN}\n\n  {GIVEN}-2  \r\n")
    mounted.chmod(0o600)
    (tmp_path / "link").symlink_to(mounted)

    tokens = find_tokens({"DISCOVERY_TOKEN": "b" * 20}, data_dir=tmp_path, file=tmp_path / "link")
    mounted.chmod(0o444)
    readable = find_tokens({}, data_dir=tmp_path, file=mounted)

    assert tokens.values == (GIVEN, f"{GIVEN}-2")
    assert tokens.notices == ()
    assert "can read" in readable.notices[0]
    assert GIVEN not in tokens.shown


@pytest.mark.requirement("SRV-25")
@rows(
    ("content", "mode", "words"),
    [
        pytest.param(f"{GIVEN}\n", 0o622, "can be written by other users", id="writable"),
        pytest.param("# nothing\n", 0o600, "holds no token", id="none"),
        pytest.param(f"{GIVEN}\nshort\n", 0o600, "which can be guessed", id="a short one"),
        pytest.param(f"{GIVEN}é\n", 0o600, "is no bearer token", id="not ASCII"),
    ],
)
def test_a_file_of_the_owner_that_is_of_no_use_is_refused_without_what_it_holds(
    content: str, mode: int, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "tokens"
    file.write_text(content, "utf-8")
    file.chmod(mode)

    problem = problem_of(lambda: find_tokens({}, file=file))

    assert words in problem
    assert GIVEN not in problem


@pytest.mark.requirement("SRV-25")
@rows("what", ["missing", "folder", "pipe"])
def test_a_token_is_read_from_no_other_thing_and_nobody_waits_for_one(
    what: str, tmp_path: Path
) -> None:
    file = tmp_path / "it"
    if what == "folder":
        file.mkdir()
    elif what == "pipe":
        os.mkfifo(file)

    assert str(file) in problem_of(lambda: find_tokens({}, file=file))


@pytest.mark.requirement("SRV-23")
def test_the_environment_goes_before_the_data_folder_and_an_empty_variable_is_none(
    tmp_path: Path,
) -> None:
    given = find_tokens({"DISCOVERY_TOKEN": f" {GIVEN}\n"}, data_dir=tmp_path)
    nothing_was_made = not os.listdir(tmp_path)  # noqa: PTH208
    kept = find_tokens({"DISCOVERY_TOKEN": ""}, data_dir=tmp_path)

    assert given.values == (GIVEN,)
    assert given.shown == "${DISCOVERY_TOKEN}"
    assert nothing_was_made
    assert len(kept.values[0]) == 43


@pytest.mark.requirement("SRV-25")
@rows(
    "value", ["", "short", "with a blank in it", "line\nbreak-" * 3, "né-" * 9, "=" * 20, "a,b" * 9]
)
def test_what_no_header_can_carry_is_no_token(value: str) -> None:
    problem = problem_of(lambda: parse_tokens(value))

    assert not value or value not in problem


@pytest.mark.requirement("SRV-22")
def test_no_token_is_shown_by_accident() -> None:
    tokens = parse_tokens(GIVEN)

    assert GIVEN not in f"{tokens!r} {tokens}"
