"""The shipped adapter's manifest: its base, and the digests of the inputs and of the result."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec
from msgspec import Struct

_SHIPPED = files("discovery_engine.search") / "data" / "model"


class BaseFiles(Struct, frozen=True):
    package: str
    version: str
    licence: str
    folder: str
    """The folder of the files, inside the package."""
    heads: int
    """Number of attention heads, which the weights do not show."""
    files: dict[str, str]
    """The SHA-256 of each."""


class Manifest(Struct, frozen=True):
    name: str
    version: int
    base: BaseFiles
    adapter: str
    """The SHA-256 of `adapter.npz`."""
    result: str
    """The SHA-256 of the tensors that base and adapter make."""


class Recipe(Struct, frozen=True):
    """All of the model that this project owns."""

    manifest: Manifest
    adapter: bytes


@cache
def shipped() -> Recipe:
    return read_recipe(_SHIPPED)


def read_recipe(folder: Traversable) -> Recipe:
    """Read the recipe that `scripts/model/pack.py` wrote into a folder."""
    manifest = msgspec.json.decode((folder / "manifest.json").read_bytes(), type=Manifest)
    return Recipe(manifest, (folder / "adapter.npz").read_bytes())
