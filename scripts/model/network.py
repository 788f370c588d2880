"""The sentence model as it is trained: a BERT encoder over texts without padding.

Texts of a batch stand one after another in one matrix; only attention pads them. That halves the
time of a step against padded batches, since tools are five times as long as requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

HEADS = 12
EPSILON = 1e-12
_GROUP = 64  # texts


class Layer(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.mixed = (nn.Linear(width, width) for _ in range(4))
        self.inner, self.outer = nn.Linear(width, inner), nn.Linear(inner, width)
        self.after_attention = nn.LayerNorm(width, eps=EPSILON)
        self.after_outer = nn.LayerNorm(width, eps=EPSILON)

    def forward(self, x: Tensor, at: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        heads = [self._heads(part(x), at, mask) for part in (self.query, self.key, self.value)]
        mixed = functional.scaled_dot_product_attention(*heads, attn_mask=mask[:, None, None, :])
        mixed = mixed.transpose(1, 2).flatten(2)[at]
        x = self.after_attention(x + self.mixed(mixed))
        return self.after_outer(x + self.outer(functional.gelu(self.inner(x))))

    @staticmethod
    def _heads(flat: Tensor, at: tuple[Tensor, Tensor], mask: Tensor) -> Tensor:
        padded = flat.new_zeros(*mask.shape, flat.shape[-1]).index_put(at, flat)
        return padded.unflatten(2, (HEADS, -1)).transpose(1, 2)


class Network(nn.Module):
    """Unit vectors of texts that are given as token ids."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()
        vocabulary, width = weights["embeddings.word_embeddings.weight"].shape
        positions = len(weights["embeddings.position_embeddings.weight"])
        inner = len(weights["encoder.layer.0.intermediate.dense.weight"])
        count = 1 + max(int(name.split(".")[2]) for name in weights if "encoder.layer" in name)
        self.word = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(positions, width)
        self.kind = nn.Embedding(2, width)
        self.after_embedding = nn.LayerNorm(width, eps=EPSILON)
        self.layers = nn.ModuleList(Layer(width, inner) for _ in range(count))
        own = dict(self.named_parameters())
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(weights[base_name(name)])

    def embedded(self, rows: Sequence[Sequence[int]]) -> Tensor:
        ids = torch.tensor([token for row in rows for token in row])
        places = torch.tensor([place for row in rows for place in range(len(row))])
        return self.after_embedding(self.word(ids) + self.position(places) + self.kind.weight[0])

    def lower(self, rows: Sequence[Sequence[int]], layers: int) -> list[Tensor]:
        """The states of the tokens of each text after so many layers, which are not trained."""
        states: list[Tensor] = [torch.empty(0)] * len(rows)
        with torch.no_grad():
            for group in _groups([len(row) for row in rows]):
                lengths = [len(rows[row]) for row in group]
                x = self._through(self.embedded([rows[row] for row in group]), lengths, 0, layers)
                for row, found in zip(group, x.to(torch.bfloat16).split(lengths), strict=True):
                    states[row] = found
        return states

    def forward(self, states: Sequence[Tensor], layers: int) -> Tensor:
        """Unit vectors, from the states after so many layers."""
        groups = _groups([len(state) for state in states])
        vectors = []
        for group in groups:
            lengths = [len(states[row]) for row in group]
            x = torch.cat([states[row] for row in group])
            x = self._through(x, lengths, layers, len(self.layers))
            vectors.append(torch.stack([part.float().mean(0) for part in x.split(lengths)]))
        order = torch.tensor([row for group in groups for row in group])
        return functional.normalize(torch.cat(vectors)[order.argsort()], dim=-1)

    def _through(self, x: Tensor, lengths: Sequence[int], first: int, last: int) -> Tensor:
        sizes = torch.tensor(lengths)
        mask = torch.arange(max(lengths))[None] < sizes[:, None]
        at = mask.nonzero(as_tuple=True)
        for layer in self.layers[first:last]:
            x = layer(x, at, mask)
        return x


def _groups(lengths: Sequence[int]) -> list[list[int]]:
    """Texts of like length, which share a matrix of attention."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    return [order[start : start + _GROUP] for start in range(0, len(order), _GROUP)]


_NAMES = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "mixed": "attention.output.dense",
    "after_attention": "attention.output.LayerNorm",
    "inner": "intermediate.dense",
    "outer": "output.dense",
    "after_outer": "output.LayerNorm",
}
_EMBEDDINGS = {
    "word": "word_embeddings",
    "position": "position_embeddings",
    "kind": "token_type_embeddings",
    "after_embedding": "LayerNorm",
}


def base_name(name: str) -> str:
    """The name that the files of the base have for a parameter of `Network`."""
    first, *rest = name.split(".")
    if first == "layers":
        number, part, kind = rest
        return f"encoder.layer.{number}.{_NAMES[part]}.{kind}"
    return f"embeddings.{_EMBEDDINGS[first]}.{rest[0]}"


def read_weights(file: Path) -> dict[str, Tensor]:
    return {name.removeprefix("bert."): values.float() for name, values in load_file(file).items()}
