"""The differences between two definitions of a tool, each with a weight.

*breaking*: a valid call may now be invalid, or an annotation changed. *compatible*: calls stay
valid. *text*: only what a reader sees changed. Each can be an attack: the weight says whether
callers break, not whether the change is harmless.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from discovery_engine._util.json import JSONObject, JSONValue, object_of
from discovery_engine.tools.model import canonical_json
from discovery_engine.trust.tool_acceptance import ordered

Weight: TypeAlias = Literal["breaking", "compatible", "text"]

WEIGHTS: tuple[Weight, ...] = ("breaking", "compatible", "text")
"""The weights, the heaviest first."""

_TEXTS = frozenset({"title", "description", "examples", "$comment", "icons", "deprecated"})
_UPPER = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
_LOWER = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_HARMLESS = frozenset({"default", "format", "contentEncoding", "contentMediaType"})
_MISSING = object()


class Change(Struct, frozen=True):
    weight: Weight
    path: str
    """The place of the change, such as `inputSchema.properties.title.type`."""
    before: JSONValue
    """The value before; None if there was none."""
    after: JSONValue
    """The value after; None if it was removed."""


def diff_definitions(before: JSONObject, after: JSONObject) -> tuple[Change, ...]:
    """Return all changes between two definitions, the heaviest first, then by path.

    The result is empty if and only if both have the same `meaning`.
    """
    old, new = ordered(before), ordered(after)
    changes = list(_of_definitions(old, new))
    if not changes and _differ(old, new):  # in a way that no reader could name
        changes = [Change("breaking", "", before, after)]
    return tuple(sorted(changes, key=lambda change: (WEIGHTS.index(change.weight), change.path)))


def heaviest(changes: Sequence[Change]) -> Weight | None:
    return min((change.weight for change in changes), key=WEIGHTS.index, default=None)


def _of_definitions(before: JSONObject, after: JSONObject) -> Iterator[Change]:
    for key, old, new in _members(before, after):
        match key:
            case "inputSchema":
                yield from _of_schemas(key, old, new)
            case "outputSchema":
                yield from _of_outputs(key, old, new)
            case "arguments":  # of a prompt
                yield _change("breaking", key, old, new)
            case "annotations":
                yield from _of_annotations(key, old, new)
            case "frontmatter" | "text" | "resources":
                yield from _of_skills(key, old, new, after.get("uri"))
            case _:
                yield _change("text" if key in _TEXTS else "compatible", key, old, new)


def _of_skills(key: str, old: JSONValue, new: JSONValue, uri: JSONValue) -> Iterator[Change]:
    """Yield changes of a skill: no change of instructions is known to be compatible."""
    match key:
        case "frontmatter":
            for name, was, now in _members(object_of(old), object_of(new)):
                is_grant = name == "allowed-tools"
                yield _change("breaking" if is_grant else "text", f"{key}.{name}", was, now)
        case "resources":
            for file, was, now in _members(_by_uri(old), _by_uri(new)):
                if file != uri:  # its digest is that of the text
                    yield _change("text", f"{key}.{file}", was, now)
        case _:
            yield _change("text", key, old, new)


def _by_uri(files: JSONValue) -> JSONObject:
    listed = files if isinstance(files, list) else []
    return {str(file.get("uri")): file for file in listed if isinstance(file, dict)}


def _of_annotations(path: str, old: JSONValue, new: JSONValue) -> Iterator[Change]:
    for key, was, now in _members(object_of(old), object_of(new)):
        yield _change("text" if key == "title" else "breaking", f"{path}.{key}", was, now)


def _of_outputs(path: str, old: JSONValue, new: JSONValue) -> Iterator[Change]:
    """Yield changes of a schema of results: only added constraints break no caller."""
    for change in _of_schemas(path, old, new):
        is_more = change.before is None and change.path != path
        weight: Weight = "compatible" if is_more else "breaking"
        yield change if change.weight == "text" else replace(change, weight=weight)


def _of_schemas(path: str, old: JSONValue, new: JSONValue) -> Iterator[Change]:
    if not (isinstance(old, dict) and isinstance(new, dict)):
        yield _change("breaking", path, old, new)
        return
    for key, was, now in _members(old, new):
        yield from _of_keyword(f"{path}.{key}", key, was, now, old, new)


def _of_keyword(
    path: str, key: str, was: JSONValue, now: JSONValue, old: JSONObject, new: JSONObject, /
) -> Iterator[Change]:
    match key:
        case "properties":
            yield from _of_properties(
                path, object_of(was), object_of(now), _names(new.get("required"))
            )
        case "patternProperties" | "$defs" | "definitions":
            for name, member, other in _members(object_of(was), object_of(now)):
                yield from _of_schemas(f"{path}.{name}", member, other)
        case "items" | "not" | "additionalProperties" if _are_schemas(was, now):
            yield from _of_schemas(path, was, now)
        case "required" if _same_names(old, new, _names(was) ^ _names(now)):
            return  # reported with the property that was added or removed
        case _:
            yield _change(_weight(key, was, now), path, was, now)


def _of_properties(
    path: str, old: JSONObject, new: JSONObject, required: frozenset[str]
) -> Iterator[Change]:
    for name, was, now in _members(old, new):
        if name in old and name in new:
            yield from _of_schemas(f"{path}.{name}", was, now)
        else:
            is_harmless = name in new and name not in required
            weight: Weight = "compatible" if is_harmless else "breaking"
            yield _change(weight, f"{path}.{name}", was, now)


def _weight(key: str, was: JSONValue, now: JSONValue) -> Weight:
    """Return the weight of a changed keyword for callers."""
    if key in _TEXTS:
        return "text"
    return "compatible" if _allows_as_much(key, was, now) else "breaking"


def _allows_as_much(key: str, was: JSONValue, now: JSONValue) -> bool:
    if key in _HARMLESS or key.startswith("x-") or now is _MISSING:
        return True
    if key == "additionalProperties":
        return now is True
    return was is not _MISSING and _is_wider(key, was, now)


def _is_wider(key: str, was: JSONValue, now: JSONValue) -> bool:
    match key:
        case "type":
            return _types(was) <= _types(now)
        case "enum":
            return _all_in(was, now)
        case "required":
            return _names(now) <= _names(was)
    if not (isinstance(was, int | float) and isinstance(now, int | float)):
        return False
    return (key in _UPPER and now >= was) or (key in _LOWER and now <= was)


def _all_in(was: JSONValue, now: JSONValue) -> bool:
    return (
        isinstance(was, list) and isinstance(now, list) and all(element in now for element in was)
    )


def _types(value: JSONValue) -> frozenset[str]:
    names = _names([value] if isinstance(value, str) else value)
    return names | {"integer"} if "number" in names else names


def _same_names(old: JSONObject, new: JSONObject, names: frozenset[str]) -> bool:
    """Return whether each of the names is a property in only one of two schemas."""
    before, after = object_of(old.get("properties")), object_of(new.get("properties"))
    return all((name in before) != (name in after) for name in names)


def _members(old: JSONObject, new: JSONObject) -> Iterator[tuple[str, JSONValue, JSONValue]]:
    """Yield the members that differ, by name: the name, the old value and the new one."""
    for key in sorted({*old, *new}):
        was, now = old.get(key, _MISSING), new.get(key, _MISSING)
        if was is _MISSING or now is _MISSING or _differ(was, now):
            yield key, was, now


def _differ(was: JSONValue, now: JSONValue) -> bool:
    # Compared as JSON, because True equals 1 in Python.
    return canonical_json(was) != canonical_json(now)


def _are_schemas(was: JSONValue, now: JSONValue) -> bool:
    return isinstance(was, dict) and isinstance(now, dict)


def _names(value: JSONValue) -> frozenset[str]:
    return (
        frozenset(n for n in value if isinstance(n, str))
        if isinstance(value, list)
        else frozenset()
    )


def _change(weight: Weight, path: str, was: JSONValue, now: JSONValue) -> Change:
    return Change(weight, path, None if was is _MISSING else was, None if now is _MISSING else now)
