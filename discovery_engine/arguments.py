"""The arguments of a call: read from words, checked against the tool's schema.

A mistake is answered with the tool's signature before anything is sent. A schema that cannot be
used checks nothing: its server then judges for itself.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType

import jsonschema_rs

from discovery_engine import strict_json
from discovery_engine.errors import InvalidArgumentsError
from discovery_engine.nearest import nearest
from discovery_engine.signature import signature
from discovery_engine.text import named
from discovery_engine.tools import JSONObject, JSONValue, Parameter, Tool

logger = logging.getLogger(__name__)

_MISTAKES = 8  # told at once; more would bury the signature
_MASK = "it"  # for values, where one of them may be the owner's

_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_FORMS = {"array": """it as JSON: '["…"]'""", "object": """it as JSON: '{"…": …}'"""}


class Checker:
    """Checks arguments for one tool; making it costs more than asking it."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._validator = _validator(tool)

    def check(
        self, arguments: JSONObject, pinned: Mapping[str, JSONValue] = MappingProxyType({})
    ) -> None:
        """Check `arguments` against the tool's schema; nothing is fetched for a `$ref`.

        `pinned` are the values of those that the owner gives. None of them is told.

        Raises:
            InvalidArgumentsError: With every mistake and the tool's signature.
        """
        given = [name for name in pinned if name in arguments]
        mistakes = [f"{named(name)} is given by the configuration" for name in given]
        if self._validator is not None and not mistakes:
            errors = self._validator.iter_errors({**arguments, **pinned})
            mistakes = list(_sentences(errors, pinned))
            mistakes += _slips(self._tool, arguments) if mistakes else ()
        if mistakes:
            raise _invalid(self._tool, mistakes)


def from_words(tool: Tool, words: Sequence[str]) -> JSONObject:
    """Arguments from a command line: `key=value` by name, others by position.

    Positional words fill the parameters in the order of the signature (required first, then by
    name), leaving out those given by name. Each value is read as the parameter's type wants it.
    A word that begins like `key=` names a parameter, so that a slip in a name is never taken for
    the value of another.

    Raises:
        InvalidArgumentsError: If there are more words than parameters, or a word names no
            parameter, one that has a value already, or does not read as its type.
    """
    by_name = {parameter.name: parameter for parameter in tool.parameters}
    by_key, positional, mistakes = _sorted_out(words, by_name)
    free = [name for name in by_name if name not in by_key]
    mistakes += [f"nowhere to put {extra!r}" for extra in positional[len(free) :][:1]]
    arguments: JSONObject = {}
    for name, text in (by_key | dict(zip(free, positional, strict=False))).items():
        try:
            arguments[name] = _read(by_name[name], text)
        except ValueError as exc:
            mistakes.append(str(exc))
    if mistakes:
        raise _invalid(tool, mistakes)
    return arguments


def _invalid(tool: Tool, mistakes: Sequence[str]) -> InvalidArgumentsError:
    return InvalidArgumentsError(tool.server, tool.name, mistakes, signature(tool))


def _sorted_out(
    words: Sequence[str], known: Collection[str]
) -> tuple[dict[str, str], list[str], list[str]]:
    """What is given by name, what by position, and what is wrong with the names."""
    by_key: dict[str, str] = {}
    positional: list[str] = []
    mistakes: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or (key not in known and not _NAME.fullmatch(key)):
            positional.append(word)
        elif key not in known:
            mistakes.append(_stranger(key, known))
        elif key in by_key:
            mistakes.append(f"{named(key)} is given twice")
        else:
            by_key[key] = value
    return by_key, positional, mistakes


def _stranger(key: str, known: Collection[str]) -> str:
    meant = nearest(key, known)
    return f"there is no argument {key!r}" + (f", did you mean {meant[0]!r}?" if meant else "")


def _read(parameter: Parameter, text: str) -> JSONValue:
    """The value that `text` means; a string is taken as it is wherever one is allowed."""
    kinds = set(parameter.type.split("|"))
    if "string" in kinds:
        return text
    try:
        value = strict_json.read(text)
    except ValueError:
        value = {"true": True, "yes": True, "false": False, "no": False}.get(text.casefold(), text)
    if isinstance(value, str) and kinds.isdisjoint({"any"}):
        form = next((f", write {_FORMS[kind]}" for kind in _FORMS if kind in kinds), "")
        kind = " or ".join(map(named, parameter.type.split("|")))
        raise ValueError(f"{named(parameter.name)}: {text!r} is not of type {kind}{form}")
    return value


def _slips(tool: Tool, arguments: JSONObject) -> Iterator[str]:
    """Arguments that the tool may not know, and must have meant one that is missing."""
    known = {parameter.name for parameter in tool.parameters}
    missing = [p.name for p in tool.parameters if p.required and p.name not in arguments]
    for name in arguments:
        if name not in known and nearest(name, missing):
            yield _stranger(name, known=missing)


def _validator(tool: Tool) -> jsonschema_rs.Validator | None:
    try:
        # The linear-time engine, so that no `pattern` of a stranger can hold us up.
        return jsonschema_rs.validator_for(
            tool.upstream_schema,
            offline=True,
            pattern_options=jsonschema_rs.RegexOptions(),
            mask=_MASK if tool.overridden.pinned else None,
        )
    except ValueError as exc:
        logger.warning("The schema of %s cannot be used to check arguments: %s", tool.key, exc)
        return None


def _sentences(
    errors: Iterable[jsonschema_rs.ValidationError], pinned: Container[str]
) -> Iterator[str]:
    found = list(islice(errors, _MISTAKES + 1))
    told = found[:_MISTAKES]
    if missing := list(filter(None, map(_missing, told))):
        yield f"{', '.join(map(named, missing))} {'is' if len(missing) == 1 else 'are'} missing"
    yield from (_sentence(error, pinned) for error in told if not _missing(error))
    if found[_MISTAKES:]:
        yield "and more"


def _sentence(error: jsonschema_rs.ValidationError, pinned: Container[str]) -> str:
    if not error.instance_path:
        return str(error.message)
    if error.instance_path[0] in pinned:
        return f"{named(str(error.instance_path[0]))}: what the configuration gives does not fit"
    return f"{named('.'.join(map(str, error.instance_path)))}: {error.message}"


def _missing(error: jsonschema_rs.ValidationError) -> str | None:
    """The required argument that it says is not there; None if it says something else."""
    kind = error.kind
    if error.instance_path or not isinstance(kind, jsonschema_rs.ValidationErrorKind.Required):
        return None
    return kind.property
