"""A sentence model of the BERT family as an ONNX graph, made from its weights alone.

The matrices may be stored as int8, a scale for each column: a quarter of the size and half of the
time. ONNX Runtime quantises what they are multiplied with for each text.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Weights: TypeAlias = Mapping[str, NDArray[np.float32]]

SCALES = "/scales"
"""Ends the name of the scales of an integer array of an adapter, one for each of its rows."""
_EPSILON = 1e-12
_OPSET = 20  # the first with Gelu
_IR_VERSION = 10
# 7 bits of the 8: products of 8 bits overflow on processors without VNNI, and the vectors are as
# good (mean cosine with the exact ones 0.992 against 0.993).
_MAX_QUANTIZED_WEIGHT = 63
_PREFIX = "bert."  # that some files have before each name


def adapted(base: Weights, adapter: bytes) -> Weights:
    """The base with the differences of an adapter added: integers times the scale of their row.

    All arithmetic is element by element, so the same files give the same weights on every machine.
    """
    weights = dict(base)
    arrays = np.load(io.BytesIO(adapter), allow_pickle=False)
    for name in (name for name in arrays.files if not name.endswith(SCALES)):
        change = arrays[name].astype(np.float32) * arrays[name + SCALES].astype(np.float32)
        weights[name] = base[name] + change
    return weights


def sentence_network(weights: Weights, *, heads: int, quantised: bool) -> onnx.ModelProto:
    """The model; its output is a vector for each token."""
    named = {name.removeprefix(_PREFIX): values for name, values in weights.items()}
    return _Graph(named, heads=heads, quantised=quantised).model()


class _Graph:
    """Nodes and tensors under names of their own."""

    def __init__(self, weights: Weights, *, heads: int, quantised: bool) -> None:
        self._weights, self._heads, self._quantised = weights, heads, quantised
        self._width = int(weights["embeddings.word_embeddings.weight"].shape[1])
        self._nodes: list[Any] = []
        self._tensors: list[Any] = []

    def model(self) -> onnx.ModelProto:
        x, mask = self._embeddings(), self._mask()
        layers = {name.split(".")[2] for name in self._weights if name.startswith("encoder.layer.")}
        for number in sorted(map(int, layers)):
            x = self._layer(f"encoder.layer.{number}", x, mask)
        output = "last_hidden_state"
        self._nodes.append(helper.make_node("Identity", [x], [output]))
        sizes = ["batch", "length"]
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, sizes)
            for name in ("input_ids", "attention_mask", "token_type_ids")
        ]
        shape = [*sizes, self._width]
        outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)]
        graph = helper.make_graph(self._nodes, "sentence", inputs, outputs, self._tensors)
        opset = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(graph, opset_imports=opset, ir_version=_IR_VERSION)

    def _embeddings(self) -> str:
        length = self._add("Gather", self._add("Shape", "input_ids"), self._index(1))
        places = self._add("Range", self._index(0), length, self._index(1))
        words = self._rows("embeddings.word_embeddings.weight", "input_ids")
        kinds = self._add(
            "Gather", self._held("embeddings.token_type_embeddings"), "token_type_ids"
        )
        positions = self._add("Gather", self._held("embeddings.position_embeddings"), places)
        x = self._add("Add", self._add("Add", words, positions), kinds)
        return self._normalised("embeddings.LayerNorm", x)

    def _mask(self) -> str:
        """0 for a token, and a large negative number for padding."""
        mask = self._add("Cast", "attention_mask", to=TensorProto.FLOAT)
        mask = self._add("Unsqueeze", mask, self._sizes(1, 2))
        return self._add("Mul", self._add("Sub", mask, self._number(1)), self._number(1e9))

    def _layer(self, prefix: str, x: str, mask: str) -> str:
        attention = f"{prefix}.attention"
        names = [f"{attention}.self.{part}" for part in ("query", "key", "value")]
        query, key, value = map(self._split, self._dense(x, *names))
        scores = self._add("MatMul", query, self._add("Transpose", key, perm=[0, 1, 3, 2]))
        scale = self._number((self._width / self._heads) ** 0.5)
        scores = self._add("Add", self._add("Div", scores, scale), mask)
        mixed = self._add("MatMul", self._add("Softmax", scores, axis=-1), value)
        mixed = self._add("Transpose", mixed, perm=[0, 2, 1, 3])
        mixed = self._add("Reshape", mixed, self._sizes(0, 0, self._width))
        (attended,) = self._dense(mixed, f"{attention}.output.dense")
        x = self._normalised(f"{attention}.output.LayerNorm", self._add("Add", x, attended))
        (inner,) = self._dense(x, f"{prefix}.intermediate.dense")
        (outer,) = self._dense(self._add("Gelu", inner), f"{prefix}.output.dense")
        return self._normalised(f"{prefix}.output.LayerNorm", self._add("Add", x, outer))

    def _split(self, x: str) -> str:
        """A vector for each head."""
        apart = self._sizes(0, 0, self._heads, self._width // self._heads)
        return self._add("Transpose", self._add("Reshape", x, apart), perm=[0, 2, 1, 3])

    def _dense(self, x: str, *names: str) -> list[str]:
        """`x` times each of the matrices, and their biases."""
        if not self._quantised:
            products = [self._add("MatMul", x, self._hold(self._matrix(name))) for name in names]
        else:
            products = self._integer_products(x, names)
        return [
            self._add("Add", product, self._hold(self._weights[f"{name}.bias"]))
            for name, product in zip(names, products, strict=True)
        ]

    def _integer_products(self, x: str, names: tuple[str, ...]) -> list[str]:
        integers, scale, zero = self._add_all("DynamicQuantizeLinear", x, outputs=3)
        products = []
        for name in names:
            matrix, scales = self._integers(self._matrix(name), axis=0)
            product = self._add("MatMulInteger", integers, self._hold(matrix), zero)
            product = self._add("Cast", product, to=TensorProto.FLOAT)
            both = self._add("Mul", scale, self._hold(scales[0]))
            products.append(self._add("Mul", product, both))
        return products

    def _rows(self, name: str, ids: str) -> str:
        if not self._quantised:
            return self._add("Gather", self._hold(self._weights[name]), ids)
        rows, scales = self._integers(self._weights[name], axis=1)
        values = self._add("Gather", self._hold(rows), ids)
        values = self._add("Cast", values, to=TensorProto.FLOAT)
        return self._add("Mul", values, self._add("Gather", self._hold(scales), ids))

    def _integers(self, matrix: Any, *, axis: int) -> tuple[Any, Any]:
        """Quantise to int8, with scales of the other axis: a number is integer times scale."""
        scales = (
            np.maximum(np.abs(matrix).max(axis=axis, keepdims=True), 1e-12) / _MAX_QUANTIZED_WEIGHT
        )
        scales = scales.astype(np.float32)
        return np.rint(matrix / scales).astype(np.int8), scales

    def _normalised(self, name: str, x: str) -> str:
        scale, shift = (self._hold(self._weights[f"{name}.{part}"]) for part in ("weight", "bias"))
        return self._add("LayerNormalization", x, scale, shift, axis=-1, epsilon=_EPSILON)

    def _matrix(self, name: str) -> Any:
        return np.ascontiguousarray(self._weights[f"{name}.weight"].T)

    def _held(self, name: str) -> str:
        return self._hold(self._weights[f"{name}.weight"])

    def _number(self, value: float) -> str:
        return self._hold(np.array(value, np.float32))

    def _index(self, value: int) -> str:
        return self._hold(np.array(value, np.int64))

    def _sizes(self, *sizes: int) -> str:
        return self._hold(np.array(sizes, np.int64))

    def _hold(self, values: Any) -> str:
        name = f"w{len(self._tensors)}"
        self._tensors.append(numpy_helper.from_array(values, name))
        return name

    def _add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self._add_all(kind, *inputs, outputs=1, **attributes)[0]

    def _add_all(self, kind: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        names = [f"n{len(self._nodes)}_{number}" for number in range(outputs)]
        node = helper.make_node(kind, list(inputs), names, **attributes)
        self._nodes.append(node)
        return names
