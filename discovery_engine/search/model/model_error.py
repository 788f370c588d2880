"""The error of a model that cannot be installed or removed."""

from __future__ import annotations

from typing import ClassVar

from discovery_engine.errors import DiscoveryError


class ModelError(DiscoveryError):
    """The model cannot be installed or removed; the hint has the next step."""

    code: ClassVar[str] = "MODEL_ERROR"
