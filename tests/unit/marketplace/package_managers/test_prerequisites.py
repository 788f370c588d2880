from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from discovery_engine.marketplace.package_managers.manager_command import (
    Prerequisite,
    Prerequisites,
)
from discovery_engine.marketplace.package_names import PACKAGE_KINDS
from tests.servers.programs import played

pytestmark = pytest.mark.anyio


def prerequisites(folder: Path) -> Prerequisites:
    return Prerequisites(os.environ | {"PATH": str(folder)}, timeout=60)


async def test_a_program_that_is_here_is_shown_with_its_version(tmp_path: Path) -> None:
    played(tmp_path, "npx", out="11.19.1\n")
    played(tmp_path, "docker", out="Docker version 28.2.2, build e6534b4\n")

    npx, docker = await prerequisites(tmp_path).probe(["npx", "docker"])

    assert npx == Prerequisite("npx", str(tmp_path / "npx"), "11.19.1")
    assert npx.is_usable
    assert docker.version == "28.2.2"


@pytest.mark.requirement("MKT-44")
async def test_a_program_that_is_missing_is_shown_with_how_to_get_it(tmp_path: Path) -> None:
    programs = [program for kind in PACKAGE_KINDS.values() for program in kind.programs]

    found = await prerequisites(tmp_path).probe(programs)

    assert [one.program for one in found] == programs
    assert all(one.problem == "it is not on the PATH" and one.hint for one in found)
    assert not any(one.is_usable for one in found)


async def test_a_program_that_fails_is_shown_with_the_reason(tmp_path: Path) -> None:
    played(tmp_path, "npx", err="cannot find module\n", code=1)

    [npx] = await prerequisites(tmp_path).probe(["npx"])

    assert npx.problem == "it does not run: cannot find module"
    assert "nodejs.org" in npx.hint


async def test_a_program_that_does_not_answer_in_time_is_not_usable(tmp_path: Path) -> None:
    program = tmp_path / "docker"
    program.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(600)\n", "utf-8")
    program.chmod(0o755)

    [docker] = await Prerequisites({"PATH": str(tmp_path)}, timeout=0.5).probe(["docker"])

    assert docker.problem == "docker did not finish within 0.5 s"


@pytest.mark.requirement("MKT-44")
async def test_each_program_is_started_once(tmp_path: Path) -> None:
    played(tmp_path, "npx", out="11.19.1\n")
    asked = prerequisites(tmp_path)

    first = await asked.probe(["npx", "npx"])
    (tmp_path / "npx").unlink()

    assert await asked.probe(["npx"]) == first


async def test_another_look_starts_only_programs_that_have_changed(tmp_path: Path) -> None:
    played(tmp_path, "npx", out="11.19.1\n")
    first = await prerequisites(tmp_path).probe(["npx"])
    (tmp_path / "npx.argv").unlink()

    same = await prerequisites(tmp_path).probe(["npx"])
    was_started = (tmp_path / "npx.argv").exists()
    os.utime(played(tmp_path, "npx", out="12.0.0\n") / "npx", ns=(1, 1))
    [changed] = await prerequisites(tmp_path).probe(["npx"])

    assert (same, was_started) == (first, False)
    assert changed.version == "12.0.0"


async def test_dnx_is_judged_by_dotnet(tmp_path: Path) -> None:
    played(tmp_path, "dnx", code=1)
    [alone] = await prerequisites(tmp_path).probe(["dnx"])
    played(tmp_path, "dotnet", out="10.0.100\n")
    [both] = await prerequisites(tmp_path).probe(["dnx"])

    assert (alone.problem, both.version) == ("it needs dotnet", "10.0.100")
    assert not (tmp_path / "dnx.argv").exists()
