"""Puts the base and the adapter together in the data folder, and takes the result away again.

A model is built in a folder of its own, which the record names when all is there: a reader finds
the old model or the new one, and a failure leaves the old one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from discovery_engine._util.file_lock import lock_file
from discovery_engine._util.files import replace_file
from discovery_engine.errors import ConfigurationError
from discovery_engine.errors.extras import extra_missing, missing_library
from discovery_engine.search.embedders.opening import (
    MODEL_FILES,
    InstalledModel,
    installed_model,
    model_folder,
    models_folder,
    record_file,
)
from discovery_engine.search.model.base_package import (
    Base,
    Manifest,
    ModelError,
    Recipe,
    fetch_base,
    shipped,
)
from discovery_engine.search.model.network import sentence_network

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from discovery_engine.search.arrays import NDArray, np

_BUILDING = ".new-"
_NO_SPACE = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


def install_model(
    data: Path, *, base: Path | None = None, recipe: Recipe | None = None
) -> InstalledModel:
    """Build the model and make it the installed one; a whole one that is there already is kept.

    Args:
        data: The data folder.
        base: The folder with the files of the base; None to take them from its package.
        recipe: What to make of it; what is shipped if None.

    Raises:
        ModelError: If the base cannot be had, or the model not be built or written, or another
            process is at it.
        ConfigurationError: If the extra is not installed.
    """
    require_libraries()
    recipe = recipe or shipped()
    if base is None and (model := _present(data, recipe.manifest)):
        return model
    folder = models_folder(data)
    try:
        with folder_lock(folder):
            # Before the download, which needs the space that a killed one has taken.
            _delete_others(folder, kept=installed_model(data))
            return _built(data, recipe, fetch_base(recipe.manifest.base, base, scratch=folder))
    except OSError as error:
        raise _unwritable(folder, error) from error


def require_libraries() -> None:
    """Look for what the model is built with, and used with.

    Raises:
        ConfigurationError: If the extra is not installed.
    """
    if library := missing_library("model"):
        raise ConfigurationError([extra_missing("model", "building the model", library)])


def remove_model(data: Path) -> InstalledModel | None:
    """Delete the installed model; None if there is none.

    Raises:
        ModelError: If it cannot be deleted, or another process is at it.
    """
    folder = models_folder(data)
    try:
        if not _exists(folder):
            return None
        with folder_lock(folder):
            model = installed_model(data)
            record_file(data).unlink(missing_ok=True)
            for path in _others(folder, kept=None):
                _delete(path)
    except OSError as error:
        raise _unwritable(folder, error) from error
    with contextlib.suppress(OSError):
        folder.rmdir()
    return model


def _exists(folder: Path) -> bool:
    """Unlike `Path.exists` this is an error for a folder that cannot be looked into."""
    try:
        folder.stat()
    except FileNotFoundError:
        return False
    return True


def _present(data: Path, manifest: Manifest) -> InstalledModel | None:
    """The installed model, if it is the one of the manifest and undamaged."""
    model = installed_model(data)
    if model is None or (model.name, model.version) != (manifest.name, manifest.version):
        return None
    is_made_of_these = model.digest == manifest.result
    return model if is_made_of_these and _is_intact(model_folder(data, model)) else None


def _built(data: Path, recipe: Recipe, base: Base) -> InstalledModel:
    folder, manifest = models_folder(data), recipe.manifest
    network, digest = _network(recipe, base)
    with tempfile.TemporaryDirectory(
        dir=folder, prefix=_BUILDING, ignore_cleanup_errors=True
    ) as place:
        new_folder = Path(place) / "model"
        new_folder.mkdir()
        _write(new_folder / "model.onnx", network)
        _write(new_folder / "tokenizer.json", base.files["tokenizer.json"])
        name = f"{manifest.name}-{manifest.version}-{_content_digest(new_folder)}"
        size = sum(file.stat().st_size for file in new_folder.iterdir())
        model = InstalledModel(manifest.name, manifest.version, name, digest, size, base.source)
        target = model_folder(data, model)
        if not _is_intact(target):  # one that is stays: at no moment it is missing
            if target.exists():
                target.rename(Path(place) / "damaged")
            new_folder.rename(target)
    replace_file(record_file(data), json.dumps(msgspec.to_builtins(model), indent=2) + "\n")
    _delete_others(folder, kept=model)
    return model


def _write(path: Path, content: bytes) -> None:
    """Write a file to the disk before the record names it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _is_intact(folder: Path) -> bool:
    """Return whether a model's files have the digest that its folder is named for."""
    try:
        return folder.name.endswith(f"-{_content_digest(folder)}")
    except OSError:
        return False


def _content_digest(folder: Path) -> str:
    """The start of a digest of the files; 24 MB take 20 ms."""
    digest = hashlib.sha256()
    for name in MODEL_FILES:
        digest.update(hashlib.sha256((folder / name).read_bytes()).digest())
    return digest.hexdigest()[:12]


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
    """Delete, as far as possible, earlier models and what a killed installation left."""
    for path in _others(folder, kept):
        with contextlib.suppress(OSError):
            _delete(path)


def _others(folder: Path, kept: InstalledModel | None) -> list[Path]:
    """The models, and folders of runs that were killed: the lock is held, so no other run works."""
    names = {LOCK, kept.folder if kept else LOCK}
    return [
        path
        for path in folder.iterdir()
        if path.name not in names and (path.is_dir() or path.name.startswith("."))
    ]


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _unwritable(folder: Path, error: OSError) -> ModelError:
    if error.errno in _NO_SPACE:
        return ModelError(
            f"there is no space left in {str(folder)!r}",
            hint="the download takes 170 MB for a moment, the model 24 MB: free that much, or "
            "name another folder with --data-dir",
        )
    return ModelError(
        f"{str(folder)!r} cannot be written: {error.strerror or error}",
        hint="check its permissions, or name another folder with --data-dir",
    )


# The weights of the base, and the adapter that changes them.
#
# All arithmetic is element by element, so the same files give the same weights on every machine.

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
    for name, tensor in json.loads(content[8:start]).items():
        if (kind := _TYPES.get(tensor.get("dtype", ""))) is None:
            continue
        first = tensor["data_offsets"][0]
        values = np.frombuffer(content, kind, math.prod(tensor["shape"]), start + first)
        arrays[name] = values.reshape(tensor["shape"]).astype(np.float32, copy=False)
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


LOCK = ".lock"
_PRIVATE = 0o600
_TRIES = 100  # each fails only if another process deleted the file or its folder meanwhile


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Create the folder and lock it; the lock of a process that ends is released.

    Raises:
        ModelError: If another process holds the lock.
        OSError: If the folder cannot be written.
    """
    descriptor = _locked(folder / LOCK)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows deletes no open file
            (folder / LOCK).unlink()
        os.close(descriptor)


def _locked(path: Path) -> int:
    for _ in range(_TRIES):
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # the folder was removed meanwhile
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR, _PRIVATE)
            if _is_locked_now(descriptor, path):
                return descriptor
            os.close(descriptor)
    raise _busy(path.parent)


def _is_locked_now(descriptor: int, path: Path) -> bool:
    """Lock the file; False if it is deleted by now, so that others lock another one."""
    try:
        lock_file(descriptor)
    except BlockingIOError as error:
        os.close(descriptor)
        raise _busy(path.parent) from error
    except OSError:  # a file system without locks: the owner runs one command at a time
        return True
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _busy(folder: Path) -> ModelError:
    return ModelError(
        f"another process installs or removes a model in {str(folder)!r}",
        hint="wait until it has ended, then repeat the command",
    )
