from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import anyio
import pytest

from discovery_engine.errors import PackageManagerError
from discovery_engine.marketplace.package_managers.manager_command import (
    LARGEST_OUTPUT,
    ManagerOutput,
    PackageProgram,
    find_program,
    reason_of,
    without_credentials,
)
from tests.servers.programs import eventually, is_running

pytestmark = pytest.mark.anyio

_SEEN = """
import json, os, pathlib, sys
here = pathlib.Path.cwd()
print(json.dumps({
    "argv": sys.argv[1:], "env": dict(os.environ), "stdin": sys.stdin.read(),
    "files": sorted(one.name for one in here.iterdir()), "here": str(here),
}))
"""


async def run(
    code: str, *arguments: str, limit: float = 60.0, stdin: bytes = b"", **variables: str
) -> ManagerOutput:
    program = PackageProgram("npm", (sys.executable, "-c", code), os.environ | variables)
    return await program.run(*arguments, timeout=limit, stdin=stdin)


@pytest.mark.requirement("MKT-40")
async def test_arguments_pass_as_they_are_and_no_shell_reads_them(tmp_path: Path) -> None:
    hostile = ("$(touch x)", "; touch x", "`id`", "a b", "*", "")

    seen = json.loads((await run(_SEEN, *hostile)).stdout)

    assert seen["argv"] == list(hostile)


@pytest.mark.requirement("MKT-40")
async def test_the_environment_is_the_users_and_there_is_no_terminal() -> None:
    seen = json.loads((await run(_SEEN, HTTPS_PROXY="http://proxy.example", TOKEN="t")).stdout)

    assert seen["env"]["HTTPS_PROXY"] == "http://proxy.example"
    assert seen["env"]["TOKEN"] == "t"
    assert seen["stdin"] == ""


async def test_it_is_given_what_it_reads_from_stdin() -> None:
    assert json.loads((await run(_SEEN, stdin=b"a==1\n")).stdout)["stdin"] == "a==1\n"


@pytest.mark.requirement("MKT-40")
async def test_settings_of_the_folders_above_cannot_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".npmrc").write_text("registry=http://evil.example", "utf-8")
    (tmp_path / "uv.toml").write_text('index-url = "http://evil.example"', "utf-8")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    seen = json.loads((await run(_SEEN)).stdout)

    assert seen["here"].startswith(str(tmp_path))
    assert seen["files"] == ["package.json", "uv.toml"]  # where npm and uv stop to look further


async def test_nothing_is_left_in_the_folder_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    output = await run("import os, tempfile; print(tempfile.mkdtemp())")

    assert output.stdout.startswith(str(tmp_path).encode())
    assert [one async for one in anyio.Path(tmp_path).iterdir()] == []


@pytest.mark.requirement("MKT-40")
async def test_a_program_that_takes_too_long_ends_with_all_that_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    code = (
        "import os, subprocess, sys, time, pathlib\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(note)!r}).write_text(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)\n"
    )
    with pytest.raises(PackageManagerError, match="npm did not finish within 2 s"):
        await run(code, limit=2)

    if note.exists():  # on a busy machine it may not have come that far
        pids = [int(pid) for pid in note.read_text("utf-8").split()]
        await eventually(lambda: not any(map(is_running, pids)))


async def test_a_cancelled_run_ends_the_program(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    code = (
        "import os, time, pathlib\n"
        f"pathlib.Path({str(note)!r}).write_text(str(os.getpid()))\ntime.sleep(600)\n"
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, code)
        await eventually(lambda: note.exists() and note.read_text("utf-8") != "")
        tasks.cancel_scope.cancel()

    await eventually(lambda: not is_running(int(note.read_text("utf-8"))))


@pytest.mark.requirement("MKT-40")
async def test_endless_output_is_cut_off_and_refused() -> None:
    code = "import sys\nwhile True: sys.stdout.write('x' * 65536)"

    with pytest.raises(PackageManagerError, match=f"more than {LARGEST_OUTPUT >> 20} MiB"):
        await run(code)


async def test_of_endless_stderr_only_the_end_is_kept() -> None:
    code = "import sys\nsys.stderr.write('x' * 5_000_000)\nsys.stderr.write('the end')"

    output = await run(code)

    assert output.stderr.endswith("the end")
    assert len(output.stderr) < 100_000


async def test_a_program_that_cannot_be_started_is_named_with_the_reason() -> None:
    program = PackageProgram("npm", ("/nonexistent/npm",), {})

    with pytest.raises(PackageManagerError, match="npm cannot be started: "):
        await program.run(timeout=5)


async def test_without_a_place_for_temporary_files_the_next_step_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))

    with pytest.raises(PackageManagerError, match="no temporary folder can be made: "):
        await run("pass")


def test_a_program_is_looked_up_on_the_path_of_the_given_environment(tmp_path: Path) -> None:
    program = tmp_path / "npm"
    program.write_text("#!/bin/sh\n", "utf-8")
    program.chmod(0o755)

    assert find_program("npm", {"PATH": str(tmp_path)}) == str(program)
    assert find_program("npm", {"PATH": str(tmp_path / "none")}) is None


@pytest.mark.requirement("MKT-44")
def test_a_reason_is_the_last_line_without_the_credentials_of_an_address() -> None:
    output = "npm warn x\nnpm error fetch https://me:hunter2@npm.acme.example/a failed\n\n"

    assert reason_of(output) == "npm error fetch https://•••@npm.acme.example/a failed"
    assert reason_of("\n") == "it gave no reason"
    assert without_credentials("see https://a.example/b@c") == "see https://a.example/b@c"
