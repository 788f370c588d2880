"""The embedder of local models, with a model of four words that is made here."""

from __future__ import annotations

from pathlib import Path

import anyio
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers

from discovery_engine.config.settings import EmbeddingsSettings
from discovery_engine.search.embedders import EmbeddingError, Vector
from discovery_engine.search.embedders.opening import open_embedder
from discovery_engine.secrets.resolver import EnvironmentResolver

pytestmark = pytest.mark.anyio

WORDS = {"[UNK]": 0, "east": 1, "north": 2, "up": 3}
# A row a word; that of padding is large, so that it would be seen in a mean.
ROWS = [[9, 9, 9], [2, 0, 0], [0, 2, 0], [0, 0, 2]]

NO_SECRETS = EnvironmentResolver({})


def model_in(folder: Path, rows: list[list[float]] = ROWS, *, pooled: bool = False) -> Path:
    """A model that looks each word up, and may give one vector a text."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.WordLevel(WORDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    nodes = [helper.make_node("Gather", ["rows", "input_ids"], ["words"])]
    shape = ["batch", "length", 3]
    if pooled:
        nodes.append(helper.make_node("ReduceMax", ["words", "axes"], ["texts"], keepdims=0))
        shape = ["batch", 3]
    made = helper.make_graph(
        nodes,
        "rows",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
            for name in ("input_ids", "attention_mask")
        ],
        [helper.make_tensor_value_info("texts" if pooled else "words", TensorProto.FLOAT, shape)],
        [
            numpy_helper.from_array(np.array(rows, np.float32), "rows"),
            numpy_helper.from_array(np.array([1]), "axes"),
        ],
    )
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(made, opset_imports=opset, ir_version=10), folder / "model.onnx")
    return folder


async def embedded(folder: Path, *texts: str) -> list[Vector]:
    settings = EmbeddingsSettings("onnx", path=folder.name)
    with anyio.fail_after(60):
        opened = open_embedder(settings, secrets=NO_SECRETS, base_dir=folder.parent, data=folder)
        async with opened as embedder:
            return await embedder.embed(texts)


async def model_name(folder: Path) -> str:
    settings = EmbeddingsSettings("onnx", path=str(folder))
    opened = open_embedder(settings, secrets=NO_SECRETS, base_dir=Path(), data=Path())
    async with opened as embedder:
        return embedder.model


async def test_a_text_is_the_mean_of_its_words_whatever_stands_beside_it(tmp_path: Path) -> None:
    folder = model_in(tmp_path / "model")

    short, long = await embedded(folder, "east", "east north north east")

    assert short == pytest.approx([1, 0, 0])
    assert long == pytest.approx([0.5**0.5, 0.5**0.5, 0])


@pytest.mark.requirement("EMB-2")
async def test_another_model_has_another_name_and_the_same_one_the_same(tmp_path: Path) -> None:
    one = await model_name(model_in(tmp_path / "one"))
    again = await model_name(model_in(tmp_path / "elsewhere"))
    other = await model_name(model_in(tmp_path / "other", [[1, 2, 3]] * 4))

    assert one == again != other


async def test_a_file_that_is_no_model_is_an_error(tmp_path: Path) -> None:
    folder = model_in(tmp_path / "model")
    (folder / "model.onnx").write_bytes(b"no model")

    with pytest.raises(EmbeddingError, match="failed"):
        await embedded(folder, "x")
