from __future__ import annotations

from pathlib import Path

import pytest

from discovery_engine.config.files.location import locate, scope_of


def test_the_users_folder_follows_the_environment(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "xdg")}

    place = locate(environ=environ, cwd=tmp_path, home=tmp_path / "home")

    assert place.absent[-1] == str(tmp_path / "xdg" / "discovery" / "discovery.yaml")


def test_without_a_home_the_users_folder_is_the_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)

    place = locate(environ={}, cwd=tmp_path)

    assert Path(place.absent[-1]).parent.name == "discovery"
    assert not place.absent[-1].startswith(str(tmp_path))


def test_without_a_folder_the_search_begins_in_the_working_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "discovery.yaml").touch()

    assert locate(environ={}, home=tmp_path).path == str(tmp_path / "discovery.yaml")


def test_the_scope_is_the_same_however_the_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "discovery.yaml"
    file.touch()
    (tmp_path / "link.yaml").symlink_to(file)

    assert (
        scope_of(file)
        == scope_of(tmp_path / "link.yaml")
        == scope_of(f"{tmp_path}/./discovery.yaml")
    )
    assert scope_of(None) == "defaults"
