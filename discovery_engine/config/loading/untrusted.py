"""Restricts a configuration of untrusted origin: it may tighten settings, but loosen none.

A file is of untrusted origin if it was discovered in the working directory, not named, or if others
may write to it. `config.settings` declares for each field which values of such a file count. A
field without a declaration keeps its default.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_type_hints

from msgspec import Struct
from msgspec.structs import asdict, fields, replace

from discovery_engine._util.json import JSONObject
from discovery_engine.config.files.location import VARIABLE, Location
from discovery_engine.config.files.permissions import writable_by_others
from discovery_engine.config.settings import Settings
from discovery_engine.config.settings_section import Permission
from discovery_engine.errors import Diagnostic, Origin
from discovery_engine.rules.overrides.override import Override
from discovery_engine.tools.model import canonical_json, fingerprint

_Section = TypeVar("_Section", bound=Struct)

_HINT = f"it counts in a file that is named, with --config or ${VARIABLE}"


def is_untrusted_origin(location: Location) -> bool:
    """Return whether somebody other than the user may have written the file.

    It was then discovered in the working directory, not named; or others may write to it.
    """
    if location.is_discovered:
        return True
    return location.path is not None and writable_by_others(location.path) is not None


def permission_warnings(location: Location) -> Iterator[Diagnostic]:
    """Yield a warning if a named file is not trusted, because others may write to it."""
    if location.path is None or location.is_discovered:
        return
    if (folder := writable_by_others(location.path)) is None:
        return
    message = f"others may write to {folder}, so this file is not trusted"
    hint = f"`chmod go-w {folder}`, if it is yours"
    yield Diagnostic("CONFIG_EXPOSED", message, hint, origin=Origin(location.path))


def restrict(settings: Settings) -> Settings:
    """Return the settings of an untrusted file: servers need approval, and nothing is loosened."""
    taken, refusals = _restricted(settings)
    bound_to = overrides_digest(settings)
    origin = Origin(settings.path or "")
    warnings = [refusal.warning(origin) for refusal in refusals]
    servers = []
    for server in settings.servers:
        restricted, refusals = _restricted(server)
        servers.append(replace(restricted, is_untrusted_origin=True, bound_to=bound_to))
        warnings += [refusal.warning(server.origin, "servers", server.name) for refusal in refusals]
    return replace(
        taken,
        is_untrusted_origin=True,
        servers=tuple(servers),
        warnings=(*settings.warnings, *warnings),
    )


class _Refusal(NamedTuple):
    """A value that does not count, or not as written."""

    path: tuple[str, ...]
    taken: object
    is_default: bool

    def warning(self, origin: Origin, *section: str) -> Diagnostic:
        counts = "is ignored" if self.is_default else f"counts as {self.taken!r}"
        path = ".".join((*section, *self.path))
        message = f"{counts}, because this file is not trusted"
        return Diagnostic("CONFIG_RESTRICTED", message, _HINT, path, origin)


class _Field(NamedTuple):
    name: str
    key: str
    default: Any
    permission: Permission | None


def _restricted(section: _Section) -> tuple[_Section, list[_Refusal]]:
    """Return a section, and those below it, with the values that count; and the refusals."""
    changes: dict[str, object] = {}
    refusals: list[_Refusal] = []
    for name, key, default, permission in _fields(type(section)):
        value = getattr(section, name)
        if permission is None and isinstance(value, Struct):
            changes[name], below = _restricted(value)
            refusals += [refusal._replace(path=(key, *refusal.path)) for refusal in below]
            continue
        taken = permission.permitted(value, default) if permission else default
        if taken != value:
            changes[name] = taken
            refusals.append(_Refusal((key,), taken, permission is None))
    return replace(section, **changes), refusals


@cache
def _fields(cls: type[Struct]) -> tuple[_Field, ...]:
    hints = get_type_hints(cls, include_extras=True)
    return tuple(
        _Field(field.name, field.encode_name, field.default, _permission(hints[field.name]))
        for field in fields(cls)
    )


def _permission(hint: object) -> Permission | None:
    metadata = getattr(hint, "__metadata__", ())
    return next((mark for mark in metadata if isinstance(mark, Permission)), None)


def overrides_digest(settings: Settings) -> str:
    """Return the digest of the file's overrides, which approvals cover; empty without any."""
    if not settings.overrides:
        return ""
    return fingerprint(canonical_json(list(map(_without_place, settings.overrides))))


def _without_place(override: Override) -> JSONObject:
    # Approvals contain a digest of this form, so it must not change.
    form = asdict(override) | {"origin": {"file": "", "line": 0, "column": 0}}
    # Older versions had no such fields.
    if override.max_result_tokens is None:
        del form["max_result_tokens"]
    if not override.examples:
        del form["examples"]
    return form
