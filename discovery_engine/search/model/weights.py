"""The weights of the base, and the adapter that changes them.

All arithmetic is element by element, so the same files give the same weights on every machine.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discovery_engine.search.arrays import NDArray, np

_TYPES = {"F32": "<f4", "F16": "<f2"}
SCALES = "/scales"
"""Ends the name of the scales of an integer array, one for each of its rows."""


def read_safetensors(content: bytes) -> dict[str, NDArray[np.float32]]:
    """The arrays of a safetensors file that hold numbers with a fraction.

    Raises:
        ValueError: If it is no such file.
    """
    from discovery_engine.search.arrays import np

    start = 8 + int.from_bytes(content[:8], "little")
    if start > len(content):
        raise ValueError("no safetensors file")
    arrays = {}
    for name, one in json.loads(content[8:start]).items():
        if (kind := _TYPES.get(one.get("dtype", ""))) is None:
            continue
        first = one["data_offsets"][0]
        values = np.frombuffer(content, kind, math.prod(one["shape"]), start + first)
        arrays[name] = values.reshape(one["shape"]).astype(np.float32, copy=False)
    return arrays


def merged(
    base: Mapping[str, NDArray[np.float32]], adapter: bytes
) -> dict[str, NDArray[np.float32]]:
    """The base with the differences of an adapter added: integers times the scale of their row.

    Raises:
        ValueError: If the adapter is of another base.
    """
    from discovery_engine.search.arrays import np

    weights = dict(base)
    with np.load(io.BytesIO(adapter), allow_pickle=False) as file:
        arrays: dict[str, Any] = {name: file[name] for name in file.files}
    for name, integers in arrays.items():
        if name.endswith(SCALES):
            continue
        if name not in base or base[name].shape != integers.shape:
            raise ValueError(f"the adapter changes {name!r}, which the base does not have so")
        change = integers.astype(np.float32) * arrays[name + SCALES].astype(np.float32)
        weights[name] = base[name] + change
    return weights
