"""Where the base comes from: a folder, an installed package, or a pip that may hang or fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from discovery_engine.search.model import ModelError, base_package, install_model
from discovery_engine.search.model.manifest import Recipe
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
def test_a_download_without_space_says_how_much_is_needed(
    tmp_path: Path, wanted: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip_that(
        tmp_path,
        monkeypatch,
        "import errno, os; raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))",
    )

    error = refused(tmp_path, wanted)

    assert "no space left" in str(error)
    assert "MB" in error.hint


@pytest.mark.requirement("EMB-30")
def test_a_package_for_another_python_is_downloaded_since_it_is_never_run(
    base: Path, tmp_path: Path, wanted: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    wheel_in(index, base, requires_python="<3")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))

    assert install_model(tmp_path / "data", recipe=wanted).base == "tiny-sentences 1.0"


@pytest.mark.requirement("EMB-30")
def test_an_index_that_serves_other_content_is_named_as_the_cause(
    base: Path, tmp_path: Path, wanted: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / "tokenizer.json").write_text("{}")
    wheel_in(tmp_path / "index", base)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))

    error = refused(tmp_path, wanted)

    assert "is not the file" in str(error)
    assert "pip config list" in error.hint
    assert "--force-reinstall" not in error.hint


@pytest.mark.requirement("EMB-30")
@pytest.mark.parametrize("content", [b"no archive", None])
def test_an_archive_that_cannot_be_read_is_an_error_with_a_hint(
    base: Path,
    tmp_path: Path,
    wanted: Recipe,
    monkeypatch: pytest.MonkeyPatch,
    content: bytes | None,
) -> None:
    wheel_in(tmp_path / "index", base)
    wheel = next((tmp_path / "index").iterdir())
    whole = wheel.read_bytes()
    wheel.write_bytes(content or whole[:200] + bytes(100) + whole[300:])
    pip_that(
        tmp_path,
        monkeypatch,
        f"import shutil, sys\nshutil.copy({str(wheel)!r}, sys.argv[sys.argv.index('--dest') + 1])",
    )

    error = refused(tmp_path, wanted)

    assert "holds no readable " in str(error)
    assert "pip config list" in error.hint


@pytest.mark.requirement("EMB-30")
def test_an_archive_cannot_fill_the_memory(
    base: Path, tmp_path: Path, wanted: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel_in(tmp_path / "index", base)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setattr("discovery_engine.search.model.base_package.LARGEST", 100)

    assert "holds no readable model.safetensors" in str(refused(tmp_path, wanted))
