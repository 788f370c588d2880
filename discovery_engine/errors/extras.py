"""Libraries that only an extra of the package installs, and the problem of one that is missing.

Such a library is imported by one module, lazily; that module, or the one that imports it, reports a
missing library with `extra_missing`.
"""

from __future__ import annotations

from importlib.util import find_spec

from discovery_engine.errors.diagnostic import Diagnostic

_LIBRARIES = {
    "keyring": ("keyring",),
    "onnx": ("numpy", "onnxruntime", "tokenizers"),
    "openapi": ("fastmcp",),
    "vectors": ("numpy",),
}
"""The libraries that are looked for before they are imported, by extra."""


def missing_library(extra: str) -> str | None:
    """The first library of an extra that is not installed; None if all are."""
    return next((name for name in _LIBRARIES[extra] if find_spec(name) is None), None)


def extra_missing(extra: str, purpose: str, library: str) -> Diagnostic:
    """The problem of a `purpose` that needs a library, which is not installed."""
    message = f"{purpose} needs {library}, which is not installed"
    return Diagnostic("EXTRA_MISSING", message, install_command(extra))


def install_command(extra: str) -> str:
    return f"pip install 'mcp-discovery-engine[{extra}]'"
