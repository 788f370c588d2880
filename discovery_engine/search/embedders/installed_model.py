"""Where the project's own model is, once `discovery tune model install` has made it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from msgspec import Struct

_FOLDER = "models"
_RECORD = "installed.json"
MODEL_FILES = ("model.onnx", "tokenizer.json")


class InstalledModel(Struct, frozen=True):
    """An installed model. Its record is written last, so that it never names half a model."""

    name: str
    version: int
    folder: str
    """Below the folder of models; of its own for each content."""
    digest: str
    """SHA-256 of the model's weights."""
    size: int
    """Bytes of all its files."""
    base: str
    """The package and version that the base was taken from, or the folder."""


def models_folder(data: Path) -> Path:
    return data / _FOLDER


def record_file(data: Path) -> Path:
    return models_folder(data) / _RECORD


def model_folder(data: Path, model: InstalledModel) -> Path:
    return models_folder(data) / model.folder


def installed_model(data: Path) -> InstalledModel | None:
    """None if there is none, or its files are not complete."""
    try:
        model = msgspec.convert(json.loads(record_file(data).read_bytes()), InstalledModel)
    except (OSError, ValueError):  # a record that is damaged is none
        return None
    folder = model_folder(data, model)
    if folder.parent != models_folder(data):
        return None
    try:
        size = sum((folder / file).stat().st_size for file in MODEL_FILES)
    except OSError:
        return None
    return model if size == model.size else None
