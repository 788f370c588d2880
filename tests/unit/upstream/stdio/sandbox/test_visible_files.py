"""What a confined program sees beside the system's folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from discovery_engine.upstream.stdio.sandbox import visible_files
from discovery_engine.upstream.stdio.sandbox.visible_files import (
    absolute,
    divided,
    links_on_the_way,
    program_files,
    settings_files,
)
from tests.rows import rows


def script(path: Path, first: str = "#!/bin/sh") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{first}\n", "utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.requirement("SBX-10")
def test_a_program_brings_its_own_prefix_and_not_the_home_folder(tmp_path: Path) -> None:
    venv = tmp_path / "home" / ".venv"
    script(venv / "bin" / "server", f"#!{venv}/bin/python")
    (venv / "bin" / "python").symlink_to("/usr/bin/env")
    for name in ("lib", "share"):
        (venv / name).mkdir()
    (venv / "pyvenv.cfg").touch()

    found = program_files(str(venv / "bin" / "server"), {})

    assert found == (str(venv / "bin"), str(venv / "lib"), str(venv / "pyvenv.cfg"))


@pytest.mark.requirement("SBX-10")
def test_packages_of_node_come_with_those_that_they_load(tmp_path: Path) -> None:
    modules = tmp_path / "project" / "node_modules"
    script(modules / "server" / "dist" / "index.js", "#!/usr/bin/env node")
    node = script(tmp_path / "node" / "bin" / "node")
    (modules / ".bin").mkdir()
    (modules / ".bin" / "server").symlink_to("../server/dist/index.js")

    found = program_files(str(modules / ".bin" / "server"), {"PATH": str(node.parent)})

    assert str(modules) in found
    assert str(node.parent) in found
    assert str(tmp_path / "project") not in found


def environment(folder: Path, settings: str) -> Path:
    """A virtual environment with a copy of its interpreter."""
    (folder / "lib").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(settings, "utf-8")
    return script(folder / "bin" / "python", "no script")


@rows("settings", ["home = {}", "version = 3.12\nHOME={}\n", "home =  {} "])
@pytest.mark.requirement("SBX-10")
def test_an_environment_brings_the_installation_that_it_names(
    tmp_path: Path, settings: str
) -> None:
    base = script(tmp_path / "python" / "bin" / "python3").parent.parent
    for name in ("lib", "share", "ssl"):
        (base / name).mkdir()
    python = environment(tmp_path / "venv", settings.format(base / "bin"))

    found = program_files(str(python), {})

    assert {str(base / name) for name in ("bin", "lib", "ssl")} <= set(found)
    assert not {str(base), str(base / "share"), str(tmp_path)} & set(found)


@pytest.mark.requirement("SBX-10")
def test_of_the_systems_settings_is_seen_what_everybody_may_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ssl" / "private").mkdir(parents=True)
    (tmp_path / "ssl" / "certs").mkdir()
    (tmp_path / "ssl" / "private").chmod(0o700)
    (tmp_path / "link").symlink_to("/root")
    for name, mode in (("shadow", 0o640), ("passwd", 0o644), ("ssl/openssl.cnf", 0o644)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)

    public, private = divided(str(tmp_path))

    assert public == [str(tmp_path / name) for name in ("passwd", "ssl/certs", "ssl/openssl.cnf")]
    assert private == [str(tmp_path / name) for name in ("shadow", "ssl/private")]
    monkeypatch.setattr(visible_files, "SETTINGS", str(tmp_path))
    assert settings_files() == (tuple(public), tuple(private))


@pytest.mark.requirement("SBX-10")
@rows(
    ("path", "expected"),
    [
        ("~", "/home/ada"),
        ("~/notes", "/home/ada/notes"),
        ("data", "/srv/project/data"),
        ("./data/../x", "/srv/project/x"),
        ("/abs", "/abs"),
    ],
)
def test_grants_are_read_as_their_file_means_them(path: str, expected: str) -> None:
    assert absolute(path, base="/srv/project", home="/home/ada") == expected


@pytest.mark.requirement("SBX-10")
def test_a_program_of_the_system_adds_nothing() -> None:
    assert program_files("/usr/bin/env", {}) == ()


@rows("settings", ["home = {0}", "home = bin", "home =", "{0}", "\0\xff=\n="])
@pytest.mark.requirement("SBX-10")
def test_an_environment_shows_no_folder_without_an_interpreter(
    tmp_path: Path, settings: str
) -> None:
    (tmp_path / "private" / "bin").mkdir(parents=True)
    python = environment(tmp_path / "venv", settings.format(tmp_path / "private" / "bin"))

    found = program_files(str(python), {})

    assert found == tuple(str(tmp_path / "venv" / one) for one in ("bin", "lib", "pyvenv.cfg"))


@pytest.mark.requirement("SBX-10")
def test_links_on_the_way_are_where_they_really_are(tmp_path: Path) -> None:
    real = tmp_path / "disk" / "python-3.12"
    real.mkdir(parents=True)
    (tmp_path / "disk" / "current").symlink_to("python-3.12")
    (tmp_path / "python").symlink_to("disk/current")
    (tmp_path / "circle").symlink_to("circle")
    base = os.path.realpath(tmp_path)

    assert dict(links_on_the_way(f"{tmp_path}/python/bin/../bin")) == {
        f"{base}/python": "disk/current",
        f"{base}/disk/current": "python-3.12",
    }
    assert dict(links_on_the_way(f"{tmp_path}/circle/x")) == {f"{base}/circle": "circle"}
