"""Explains the errors of a validator; for a union, by the branch that the value means.

An error of a union has the errors of all branches.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from jsonschema_rs import ValidationError, ValidationErrorKind
from msgspec import Struct

from discovery_engine._util.json import JSONValue
from discovery_engine._util.text import named
from discovery_engine.tools.limits import shortened
from discovery_engine.tools.schema_graph import UnreadableSchemaError
from discovery_engine.tools.signature import alternatives_text
from discovery_engine.tools.subschemas import Path, Subschemas

Errors: TypeAlias = Sequence[ValidationError]

_MAX_CHOICES = 8  # listed values of a property that selects the branch
_MAX_VALUE_LENGTH = 60  # characters


class Mistake(Struct, frozen=True):
    path: Path
    message: str
    missing: str = ""
    """The required property that is missing, if this is the mistake."""


def mistakes_of(errors: Errors, subschemas: Subschemas) -> Iterator[Mistake]:
    """Yield the mistakes behind the errors that the validator of `subschemas` has found."""
    for error in errors:
        branches = branches_of(error)
        if not branches:
            yield Mistake(tuple(error.instance_path), str(error.message), missing_in(error))
            continue
        explain = _mistakes_of_union if all(branches) else _mistakes_of_several
        try:
            yield from list(explain(error, branches, subschemas))
        except UnreadableSchemaError:
            yield Mistake(tuple(error.instance_path), str(error.message))


def branches_of(error: ValidationError) -> Sequence[Errors]:
    """Return the errors of each branch of a union, empty for a branch that fits."""
    branches: Sequence[Errors] = getattr(error.kind, "context", ())
    return branches


def missing_in(error: ValidationError) -> str:
    """Return the required property that is missing; empty for any other mistake."""
    return error.kind.property if isinstance(error.kind, ValidationErrorKind.Required) else ""


def _mistakes_of_union(
    error: ValidationError, branches: Sequence[Errors], subschemas: Subschemas
) -> Iterator[Mistake]:
    """Yield the mistakes of the meant branch; else what all possible branches lack."""
    path, value = tuple(error.instance_path), error.instance
    meant = [
        i for i, errors in enumerate(branches) if not any(_is_of_kind(e, path) for e in errors)
    ]
    names: list[int] = []
    if isinstance(value, dict):
        selected = [i for i in meant if not any(_is_of_choice(e, path) for e in branches[i])]
        if meant and not selected:
            yield from _unselected([branches[i] for i in meant], path, subschemas)
            return
        meant = selected or meant
        names = [len(value.keys() & _declared(error, i, subschemas)) for i in meant]
    by_branch = [[*mistakes_of(branches[i], subschemas)] for i in meant]
    best = max(names, default=0)
    if names.count(best) == 1:
        yield from by_branch[names.index(best)]
    elif by_branch and all(m.missing and m.path == path for own in by_branch for m in own):
        needed = alternatives_text([[named(m.missing) for m in own] for own in by_branch])
        yield Mistake(path, f"{needed} is missing")
    else:
        yield Mistake(path, str(error.message))


def _is_of_kind(error: ValidationError, path: Path) -> bool:
    return error.kind.name == "type" and tuple(error.instance_path) == path


def _is_of_choice(error: ValidationError, path: Path) -> bool:
    """Return whether a property that selects the branch has the value of another branch."""
    return error.kind.name in ("enum", "const") and tuple(error.instance_path[:-1]) == path


def choices_of(error: ValidationError) -> Sequence[JSONValue]:
    """Return the allowed values; empty if the error is not about `enum` or `const`."""
    match error.kind:
        case ValidationErrorKind.Constant(expected_value=value):
            return [value]
        case ValidationErrorKind.Enum(options=options):
            return list(options)
    return ()


def _unselected(
    branches: Sequence[Errors], path: Path, subschemas: Subschemas
) -> Iterator[Mistake]:
    """Yield a mistake for each value that selects no branch, with the values that would."""
    choices: dict[Path, list[JSONValue]] = {}
    values: dict[Path, JSONValue] = {}
    for error in (error for errors in branches for error in errors if _is_of_choice(error, path)):
        place = tuple(error.instance_path)
        choices.setdefault(place, []).extend(choices_of(error))
        values[place] = error.instance
    for place, value in values.items():
        listed = ", ".join(dict.fromkeys(map(_json, choices[place][:_MAX_CHOICES])))
        yield Mistake(place, f"{subschemas.mask or _json(value)} is none of {listed}")


def _declared(error: ValidationError, branch: int, subschemas: Subschemas) -> set[str]:
    nodes = subschemas.conjuncts((*error.schema_path, branch))
    return {name for node in nodes for name in node.properties}


def _mistakes_of_several(
    error: ValidationError, branches: Sequence[Errors], subschemas: Subschemas
) -> Iterator[Mistake]:
    """Yield the mistake that several branches fit, by what each requires if that differs."""
    fitting = [
        {
            name
            for node in subschemas.conjuncts((*error.schema_path, position))
            for name in node.assertions.get("required", ())
        }
        for position, errors in enumerate(branches)
        if not errors
    ]
    own = [sorted(names - set.intersection(*fitting)) for names in fitting]
    is_of_names = all(own)
    message = f"only {alternatives_text(own)} may be given" if is_of_names else str(error.message)
    yield Mistake(tuple(error.instance_path), message)


def _json(value: JSONValue) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except ValueError:  # an integer of thousands of digits
        return "a number beyond all bounds"
    return shortened(text, _MAX_VALUE_LENGTH)
