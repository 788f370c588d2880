"""Embedders that need no network: the model of a folder, and sums of word vectors.

A folder has `model.onnx` and the `tokenizer.json` that belongs to it. The model is loaded in a
thread when the first text comes, and runs on one core: a search must not take the machine from the
tools it is for.
"""

from __future__ import annotations

import hashlib
import re
import threading
import unicodedata
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from discovery_engine.search.embedders.embedder import EmbeddingError, Vector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_MODEL, _TOKENIZER = "model.onnx", "tokenizer.json"
_PLACES = ("", "onnx")  # below the folder; exporters disagree
_PADDING = 2  # times the shortest text of a batch, at most
# Tokens of a text that are read, where the tokenizer sets no bound itself.
_MAX_EMBEDDED_TOKENS = 256


class OnnxEmbedder:
    """Mean of the token vectors, or what the model itself gives as one vector a text.

    Raises:
        EmbeddingError: If the folder holds no model.
    """

    def __init__(self, folder: Path) -> None:
        self._model_file = _found(folder, _MODEL)
        self._tokenizer_file = _found(folder, _TOKENIZER)
        self.model = f"onnx:{_digest(self._model_file, self._tokenizer_file)}"
        self.dimensions: int | None = None
        self._loaded: _Model | None = None
        self._loading = threading.Lock()

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        # A query that waits no longer must not wait for the thread either.
        work = partial(self._embed, list(texts))
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)

    def _embed(self, texts: list[str]) -> list[Vector]:
        try:
            with self._loading:
                if self._loaded is None:
                    self._loaded = _Model(self._model_file, self._tokenizer_file)
            vectors = self._loaded.vectors(texts)
        except EmbeddingError:
            raise
        except Exception as exc:  # whatever a foreign file or runtime does
            raise EmbeddingError(f"the model {self._model_file.name!r} failed: {exc}") from exc
        self.dimensions = len(vectors[0]) if vectors else self.dimensions
        return vectors


class _Model:
    def __init__(self, model: Path, tokenizer: Path) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        from discovery_engine.search.arrays import np

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._np = np
        self._session = onnxruntime.InferenceSession(
            str(model), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = {graph_input.name for graph_input in self._session.get_inputs()}
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        if self._tokenizer.truncation is None:
            self._tokenizer.enable_truncation(_MAX_EMBEDDED_TOKENS)

    def vectors(self, texts: list[str]) -> list[Vector]:
        encoded = [encoding.ids for encoding in self._tokenizer.encode_batch(texts)]
        vectors: list[Vector] = [()] * len(texts)
        for places in _alike([len(ids) for ids in encoded]):
            batch = self._vectors([encoded[place] for place in places])
            for place, vector in zip(places, batch, strict=True):
                vectors[place] = vector
        return vectors

    def _vectors(self, rows: Sequence[Sequence[int]]) -> Any:
        ids, mask = self._padded(rows)
        inputs = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": self._np.zeros_like(ids),
        }
        output = self._session.run(None, {k: v for k, v in inputs.items() if k in self._inputs})[0]
        return self._pooled(output, mask)

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[Any, Any]:
        shape = len(rows), max(map(len, rows), default=0)
        ids = self._np.zeros(shape, dtype=self._np.int64)
        mask = self._np.zeros(shape, dtype=self._np.int64)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = row
            mask[number, : len(row)] = 1
        return ids, mask

    def _pooled(self, output: Any, mask: Any) -> Any:
        if output.ndim == 2:  # noqa: PLR2004 - one vector a text: the model pools itself
            return output
        counted = mask[..., None].astype(self._np.float32)
        return (output * counted).sum(axis=1) / self._np.maximum(counted.sum(axis=1), 1)


def _alike(lengths: Sequence[int]) -> Iterator[list[int]]:
    """The places of texts, with those together of which none is twice as long as another.

    Padding is computed like text: a request of 200 words and its 16 clauses in one batch cost four
    times what they cost in batches of like length.
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and lengths[place] > _PADDING * lengths[batch[0]]:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def _found(folder: Path, name: str) -> Path:
    for place in _PLACES:
        if (file := folder / place / name).is_file():
            return file
    raise EmbeddingError(
        f"the folder {str(folder)!r} holds no {name}",
        hint="let `search.embeddings.path` name the folder of a model exported to ONNX",
    )


def _digest(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


# The word vectors are distilled from the model of this project (`scripts/model/distil.py`): their
# sums are near to the vectors that it gives whole texts. They know what words mean, and nothing of
# what their order means.

FILE = Path(__file__).parents[1] / "data" / "model" / "words.npz"
_WORD = re.compile(r"[^\W_]+")
_LONGEST_WORD = 40  # characters; what is longer is no word
_INSIDE = "##"  # before a piece that does not begin a word


class StaticEmbedder:
    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        content = file.read_bytes()
        self.model = f"static:{hashlib.sha256(content).hexdigest()}"
        self.dimensions: int | None = None
        self._loaded: WordVectors | None = None
        self._loading = threading.Lock()

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        return await anyio.to_thread.run_sync(partial(self._embed, list(texts)))

    def _embed(self, texts: list[str]) -> list[Vector]:
        with self._loading:
            if self._loaded is None:
                self._loaded = WordVectors.of_file(self._file)
        vectors = [self._loaded.vector(text) for text in texts]
        self.dimensions = self._loaded.dimensions
        return vectors


class WordVectors:
    """Made by `of_file`."""

    def __init__(self, vocabulary: Mapping[str, int], rows: Any, scales: Any) -> None:
        self._vocabulary = vocabulary
        self._rows = rows
        self._scales = scales
        self.dimensions = int(rows.shape[1])

    @classmethod
    def of_file(cls, file: Path) -> WordVectors:
        """Pieces of words, for each a row of small integers, and for each row its scale."""
        from discovery_engine.search.arrays import np

        with np.load(file, allow_pickle=False) as arrays:
            pieces = arrays["pieces"].tobytes().decode("utf-8").split("\n")
            return cls({p: n for n, p in enumerate(pieces)}, arrays["rows"], arrays["scales"])

    def vector(self, text: str) -> Vector:
        """The sum of the words of a text; of a text without a known word, that of all words."""
        rows = [*pieces(text, self._vocabulary)] or slice(None)
        total = self._scales[rows] @ self._rows[rows]
        vector: Vector = total.tolist()
        return vector


def pieces(text: str, vocabulary: Mapping[str, int]) -> Iterator[int]:
    """The numbers of the longest pieces that make up each word of a text; none of other words."""
    plain = unicodedata.normalize("NFD", text.lower())
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    for word in _WORD.findall(plain):
        yield from _pieces_of(word, vocabulary)


def _pieces_of(word: str, vocabulary: Mapping[str, int]) -> Sequence[int]:
    numbers: list[int] = []
    start = 0
    while start < len(word) <= _LONGEST_WORD:
        before = _INSIDE if start else ""
        for end in range(len(word), start, -1):
            number = vocabulary.get(before + word[start:end])
            if number is not None:
                numbers.append(number)
                start = end
                break
        else:
            return ()
    return numbers
