"""Puts the base and the adapter together in the data folder, and takes the result away again.

A model is built in a folder of its own, which the record names when all is there: a reader finds
the old model or the new one, and a failure leaves the old one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from discovery_engine._util.files import replace_file
from discovery_engine.search.embedders.extras import missing_extra
from discovery_engine.search.embedders.installed_model import (
    InstalledModel,
    installed_model,
    model_folder,
    models_folder,
    record_file,
)
from discovery_engine.search.model.base_package import Base, ModelError, fetch_base
from discovery_engine.search.model.manifest import Recipe, shipped
from discovery_engine.search.model.network import sentence_network
from discovery_engine.search.model.weights import merged, read_safetensors

_BUILDING = ".new-"


def install_model(
    data: Path, *, base: Path | None = None, recipe: Recipe | None = None
) -> InstalledModel:
    """Build the model and make it the installed one.

    Args:
        data: The data folder.
        base: The folder with the files of the base; None to take them from its package.
        recipe: What to make of it; what is shipped if None.

    Raises:
        ModelError: If the base cannot be had, or the model not be built or written.
        EmbeddingError: If the extra is not installed.
    """
    _check_libraries()
    recipe = recipe or shipped()
    folder = models_folder(data)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = fetch_base(recipe.manifest.base, base, scratch=folder)
        return _built(data, recipe, files)
    except OSError as error:
        raise _unwritable(folder, error) from error


def remove_model(data: Path) -> InstalledModel | None:
    """Delete the installed model; None if there is none.

    Raises:
        ModelError: If it cannot be deleted.
    """
    found = installed_model(data)
    try:
        record_file(data).unlink(missing_ok=True)
        if models_folder(data).is_dir():
            _delete_others(models_folder(data), kept=None)
    except OSError as error:
        raise _unwritable(models_folder(data), error) from error
    return found


def _built(data: Path, recipe: Recipe, base: Base) -> InstalledModel:
    folder, manifest = models_folder(data), recipe.manifest
    network, digest = _network(recipe, base)
    with tempfile.TemporaryDirectory(dir=folder, prefix=_BUILDING) as place:
        made = Path(place) / "model"
        made.mkdir()
        (made / "model.onnx").write_bytes(network)
        (made / "tokenizer.json").write_bytes(base.files["tokenizer.json"])
        size = sum(file.stat().st_size for file in made.iterdir())
        name = f"{manifest.name}-{manifest.version}-{digest[:12]}"
        model = InstalledModel(manifest.name, manifest.version, name, digest, size, base.source)
        target = model_folder(data, model)
        if target.exists():
            shutil.rmtree(target)
        made.rename(target)
    replace_file(record_file(data), json.dumps(msgspec.to_builtins(model), indent=2) + "\n")
    _delete_others(folder, kept=model)
    return model


def _network(recipe: Recipe, base: Base) -> tuple[bytes, str]:
    """The model's file, and the digest of its tensors."""
    manifest = recipe.manifest
    if hashlib.sha256(recipe.adapter).hexdigest() != manifest.adapter:
        raise ModelError("the shipped adapter is damaged", hint="install discovery again")
    try:
        weights = merged(read_safetensors(base.files["model.safetensors"]), recipe.adapter)
    except (ValueError, KeyError) as error:
        raise ModelError(f"the model cannot be built: {error}") from error
    network = sentence_network(weights, heads=manifest.base.heads, quantised=True)
    digest = tensor_digest(network)
    if digest != manifest.result:
        raise ModelError(
            "the model that was built is not the one that was evaluated",
            hint="update onnx and numpy: `pip install -U onnx numpy`, then repeat the command",
        )
    return network.SerializeToString(), digest


def tensor_digest(network: Any) -> str:
    """The SHA-256 of the values of all tensors; that of the file depends on the version of onnx."""
    digest = hashlib.sha256()
    for tensor in network.graph.initializer:
        digest.update(f"{tensor.name} {tensor.data_type} {list(tensor.dims)}\n".encode())
        digest.update(tensor.raw_data)
    return digest.hexdigest()


def _delete_others(folder: Path, kept: InstalledModel | None) -> None:
    """Delete earlier models and what an interrupted installation left."""
    for path in folder.iterdir():
        if path.is_dir() and (kept is None or path.name != kept.folder):
            shutil.rmtree(path, ignore_errors=True)
    if kept is None:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _check_libraries() -> None:
    try:
        import numpy as np  # noqa: F401, PLC0415 - an extra, and slow to load
        import onnx  # noqa: F401, PLC0415 - as above
        import onnxruntime  # noqa: F401, PLC0415 - the model is of no use without it
        import tokenizers  # noqa: F401, PLC0415 - as above
    except ImportError as error:
        raise missing_extra("model", error.name) from error


def _unwritable(folder: Path, error: OSError) -> ModelError:
    if error.errno == errno.ENOSPC:
        return ModelError(
            f"there is no space left in {str(folder)!r}",
            hint="the download takes 85 MB for a moment, the model 23 MB: make room, or name "
            "another folder with --data-dir",
        )
    return ModelError(
        f"{str(folder)!r} cannot be written: {error.strerror or error}",
        hint="check its permissions, or name another folder with --data-dir",
    )
