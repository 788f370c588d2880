"""The JSON forms of what the engine returns: the same in the command line and in the API.

Keys are in snake_case, arrays are never null. Programs depend on these forms: keys are added, and
no key changes its meaning.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import to_builtins

from discovery_engine._util.json import JSONObject


def fields(value: object, names: str) -> JSONObject:
    """Attributes as JSON: for `name status=state`, the attributes `name` and `state`.

    Those that are structs or tuples become objects and arrays.
    """
    pairs = (name.partition("=") for name in names.split())
    return {key: to_builtins(getattr(value, name or key)) for key, _, name in pairs}


def all_fields(values: Iterable[object], names: str) -> list[JSONObject]:
    """The same of each value."""
    return [fields(value, names) for value in values]
