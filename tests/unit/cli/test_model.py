"""`discovery tune model`, with a small model that the library installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from discovery_engine.config.settings import EmbeddingsSettings, SearchSettings
from discovery_engine.search.model import InstalledModel, install_model, installed_model
from tests.factories import make_settings
from tests.unit.cli.backends import FakeEngine, run, usual_view, view_of
from tests.unit.search.model.test_installation import base_in, recipe


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DISCOVERY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


@pytest.fixture
def model(data: Path, tmp_path: Path) -> InstalledModel:
    base = base_in(tmp_path / "base")
    return install_model(data, base=base, recipe=recipe(base))


def wanting_it() -> FakeEngine:
    embeddings = EmbeddingsSettings("discovery")
    settings = make_settings(search=SearchSettings(embeddings=embeddings))
    return FakeEngine(view_of(settings))


@pytest.mark.requirement("EMB-30")
def test_without_a_model_show_has_the_command_that_installs_it() -> None:
    assert "`discovery tune model install`" in run("tune", "model", "show").stderr
    assert json.loads(run("tune", "model", "show", "--json").stdout)["installed"] is False
    assert run("tune", "model", "remove").exit_code == 0


@pytest.mark.requirement("EMB-30")
def test_show_has_the_name_the_size_and_the_folder(model: InstalledModel, data: Path) -> None:
    shown = run("tune", "model", "show")
    form = json.loads(run("tune", "model", "show", "--json").stdout)

    assert "model tiny 1, 0 MB, made of" in shown.stdout
    assert str(data / "models" / model.folder) in shown.stdout
    assert (form["installed"], form["size_bytes"]) == (True, model.size)
    assert form["digest"] == model.digest


@pytest.mark.requirement("EMB-30")
@pytest.mark.usefixtures("model")
def test_remove_deletes_it(data: Path) -> None:
    done = run("tune", "model", "remove")

    assert "removed model tiny 1" in done.stderr
    assert installed_model(data) is None


@pytest.mark.requirement("EMB-30")
def test_a_base_that_does_not_fit_is_an_error_with_the_next_step(tmp_path: Path) -> None:
    done = run("tune", "model", "install", "--base", str(base_in(tmp_path / "base")))

    assert done.exit_code == 1
    assert "is not the file that the model was made for" in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.requirement("EMB-30")
def test_doctor_says_that_the_model_is_missing() -> None:
    done = run("doctor", engine=wanting_it())

    assert "no model is installed [MODEL_MISSING]" in done.stdout
    assert "hint: `discovery tune model install`" in done.stdout


@pytest.mark.requirement("EMB-30")
@pytest.mark.usefixtures("model")
def test_doctor_says_that_the_model_is_there_and_whether_it_is_used() -> None:
    assert "tiny 1, 0 MB, is used" in run("doctor", engine=wanting_it()).stdout
    assert "tiny 1, 0 MB, is not used" in run("doctor", engine=FakeEngine(usual_view())).stdout
