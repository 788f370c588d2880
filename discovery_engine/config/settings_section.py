"""A section of the configuration, and what of it a file of untrusted origin may set.

Written out, a field has the name of its key in `discovery.yaml`. Every field declares what such a
file may set it to. A field without a declaration is owner-only: in such a file it is ignored, and
keeps its default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct


class SettingsSection(
    Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True
):
    """What is written and read under one key."""


class Permission:
    """What of a field's value counts if a file of untrusted origin gives it."""

    def __init__(self, permitted: Callable[[Any, Any], Any]) -> None:
        self.permitted = permitted
        """From the value that is given and the default, what is used."""


UNTRUSTED = Permission(lambda value, _: value)
"""Any value: it loosens nothing, or an approval is bound to it."""
AT_MOST_DEFAULT = Permission(min)
NOT_OPEN = Permission(lambda policy, _: "on_first_use" if policy == "open" else policy)
LOCAL = Permission(lambda provider, default: provider if provider == "hash" else default)
"""Only the provider that neither sends texts and keys elsewhere nor loads files of the project."""
MIN_RESULT_TOKENS = 250
"""With fewer, little more than the note on the cut would fit."""
MAX_RESULT_TOKENS = 25_000
RESULT_TOKENS = Permission(
    lambda tokens, default: tokens if tokens and tokens <= MAX_RESULT_TOKENS else default
)
"""Not longer than the default; 0, which cuts nothing, would be."""
INTERNAL = Permission(lambda value, _: value)
"""Set by the engine; no key of any file."""
