r"""Distil word vectors from the sentence model: `provider: static` sums them.

    python scripts/model/distil.py --model FOLDER --vectors FOLDER \
        --catalog FILE... --requests FILE... [--without FOLD] --save FILE

The texts are those of tools and of requests for them. Each word vector begins as the model's
vector of the word alone, weighed by how rare it is; then all are moved until their sums have the
directions of the model's vectors of whole texts, on their first `DIMENSIONS` principal axes. Words
that no text has, and that are not ASCII, are left out. The model's vectors are kept in the folder
of `--vectors`. `--without N` leaves out, for an evaluation, the servers of a fold (`folds.json`)
and all tools that are named like one of theirs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional
from training_texts import lines, tool_texts

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from embedding import Embedding  # noqa: E402

from discovery_engine.search.embedders.local import pieces  # noqa: E402
from discovery_engine.search.text.lexicon import default_lexicon  # noqa: E402

DIMENSIONS = 256
RARE = 1e-3  # the frequency of a word that weighs half
EPOCHS, RATE, BATCH = 3, 3e-3, 64  # a fourth epoch is no better on texts that are held out
HELD_OUT = 500
LEVELS = 127
SEED = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="with model.onnx, tokenizer.json")
    parser.add_argument("--vectors", type=Path, required=True, help="where they are kept")
    parser.add_argument("--catalog", type=Path, action="append", required=True)
    parser.add_argument("--requests", type=Path, action="append", default=[])
    parser.add_argument("--without", type=int, help="the fold whose servers are left out")
    parser.add_argument("--evaluation", type=Path, help="figures as JSON, for the record")
    parser.add_argument("--save", type=Path, required=True)
    options = parser.parse_args()
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    left_out = _left_out(options.without, options.catalog)
    texts = [*_texts(options.catalog, options.requests, left_out)]
    words = _words(options.model)
    vocabulary = {word: number for number, word in enumerate(words)}
    rows = [[*pieces(text, vocabulary)] for text in texts]
    texts = [text for text, row in zip(texts, rows, strict=True) if row]
    rows = [row for row in rows if row]
    embedding = Embedding(str(options.model), options.vectors)
    whole = embedding.of_texts(texts)
    single = embedding.of_texts([word.removeprefix("##") for word in words])
    found = fitted(single, whole, rows)
    used = np.bincount(np.concatenate(rows), minlength=len(words)) > 0
    kept = [n for n, word in enumerate(words) if used[n] or word.removeprefix("##").isascii()]
    save(options.save, [words[n] for n in kept], found[kept])
    record = {
        "file": hashlib.sha256(options.save.read_bytes()).hexdigest(),
        "model": hashlib.sha256((options.model / "model.onnx").read_bytes()).hexdigest(),
        "texts": len(texts),
        "licence": "MIT; the vocabulary and the base of the model: Apache-2.0",
        "script": "scripts/model/distil.py",
        "data": {
            file.name: hashlib.sha256(file.read_bytes()).hexdigest()
            for file in (*options.catalog, *options.requests)
        },
        "evaluation": json.loads(options.evaluation.read_text()) if options.evaluation else {},
    }
    options.save.with_suffix(".json").write_text(json.dumps(record, indent=2) + "\n")


def _left_out(fold: int | None, catalogs: Sequence[Path]) -> tuple[set[str], set[str]]:
    """The servers and the names of tools that an evaluation must not have seen."""
    if fold is None:
        return set(), set()
    folds: Mapping[str, int] = json.loads((Path(__file__).parent / "folds.json").read_text())
    servers = {server for server, number in folds.items() if number == fold}
    names = {line["name"] for line in lines(catalogs) if line["server"] in servers}
    return servers, names


def _texts(
    catalogs: Sequence[Path], requests: Sequence[Path], left_out: tuple[set[str], set[str]]
) -> Iterator[str]:
    servers, names = left_out
    tools = tool_texts(catalogs).items()
    yield from sorted({t for (s, name), t in tools if s not in servers and name not in names})
    in_english = default_lexicon().in_english
    for line in lines(requests):
        if line["server"] not in servers and line["name"] not in names:
            asked = line["requests"] if "requests" in line else [line["query"]]
            yield from map(in_english, asked)


def _words(model: Path) -> list[str]:
    """The vocabulary of the model without what is no part of a word."""
    numbers = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    words = sorted(numbers, key=numbers.__getitem__)
    return [word for word in words if word.removeprefix("##").isalnum()]


def fitted(
    single: NDArray[np.float32], whole: NDArray[np.float32], rows: Sequence[Sequence[int]]
) -> NDArray[np.float32]:
    """Word vectors whose sums have the directions of `whole`."""
    counts = np.bincount(np.concatenate(rows), minlength=len(single))
    mean = whole.mean(axis=0)
    _, _, axes = np.linalg.svd(whole - mean, full_matrices=False)
    first = axes[:DIMENSIONS].T
    rarity = RARE / (RARE + (counts + 1) / counts.sum())
    start = ((single - single.mean(axis=0)) @ first) * rarity[:, None]
    aim = torch.tensor((whole - mean) @ first)
    bag = torch.nn.EmbeddingBag.from_pretrained(
        torch.tensor(start, dtype=torch.float32), mode="sum", freeze=False, sparse=True
    )
    optimizer = torch.optim.SparseAdam(bag.parameters(), lr=RATE)
    chance = np.random.default_rng(SEED)
    order = chance.permutation(len(rows))
    held, learnt = order[:HELD_OUT], order[HELD_OUT:]
    for epoch in range(EPOCHS):
        for batch in np.array_split(chance.permutation(learnt), max(1, len(learnt) // BATCH)):
            loss = _loss(bag, rows, aim, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            print(
                f"{epoch}: {_loss(bag, rows, aim, held).item():.4f} of texts held out", flush=True
            )
    moved: NDArray[np.float32] = bag.weight.detach().numpy()
    return moved


def _loss(
    bag: torch.nn.EmbeddingBag,
    rows: Sequence[Sequence[int]],
    aim: torch.Tensor,
    batch: NDArray[np.int64],
) -> torch.Tensor:
    some = [rows[n] for n in batch]
    starts = np.cumsum([0, *map(len, some)])[:-1]
    sums = bag(torch.tensor(np.concatenate(some)), torch.tensor(starts))
    return (1 - functional.cosine_similarity(sums, aim[batch])).mean()


def save(file: Path, words: Sequence[str], vectors: NDArray[np.float32]) -> None:
    scales = np.maximum(np.abs(vectors).max(axis=1), 1e-12).astype(np.float32) / LEVELS
    integers = np.rint(vectors / scales[:, None]).astype(np.int8)
    joined = np.frombuffer("\n".join(words).encode("utf-8"), dtype=np.uint8)
    np.savez(file, pieces=joined, rows=integers, scales=scales)
    print(f"{len(words)} words, {file.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
