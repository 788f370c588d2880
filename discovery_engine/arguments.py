"""The arguments of a call: read from words, checked against the tool's schema.

A mistake is answered with the tool's signature before anything is sent. A schema that cannot be
used checks nothing: its server then judges for itself.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import jsonschema_rs

from discovery_engine.errors import InvalidArgumentsError
from discovery_engine.signature import signature
from discovery_engine.tools import JSONObject, JSONValue, Parameter, Tool

logger = logging.getLogger(__name__)

_MISTAKES = 8  # told at once; more would bury the signature
_MASK = "it"  # for values, where one of them may be the owner's


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
        mistakes = [f"{name} is given by the configuration" for name in pinned if name in arguments]
        if self._validator is not None and not mistakes:
            errors = self._validator.iter_errors({**arguments, **pinned})
            mistakes = list(_sentences(errors, pinned))
        if mistakes:
            raise InvalidArgumentsError(str(self._tool.key), mistakes, signature(self._tool))


def from_words(tool: Tool, words: Sequence[str]) -> JSONObject:
    """Arguments from a command line: `key=value` by name, others by position.

    Positional words fill the parameters in the order of the signature (required first, then by
    name), leaving out those given by name. Each value is read as the parameter's type wants it.

    Raises:
        InvalidArgumentsError: If there are more words than parameters, or a word does not read
            as its parameter's type.
    """
    by_name = {parameter.name: parameter for parameter in tool.parameters}
    named: dict[str, str] = {}
    positional: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key in by_name:
            named[key] = value
        else:
            positional.append(word)
    free = [name for name in by_name if name not in named]
    if len(positional) > len(free):
        extra = positional[len(free)]
        raise InvalidArgumentsError(str(tool.key), [f"nowhere to put {extra!r}"], signature(tool))
    texts = named | dict(zip(free, positional, strict=False))
    try:
        return {name: _read(by_name[name], text) for name, text in texts.items()}
    except ValueError as exc:
        raise InvalidArgumentsError(str(tool.key), [str(exc)], signature(tool)) from exc


def _read(parameter: Parameter, text: str) -> JSONValue:
    """The value that `text` means; a string is taken as it is wherever one is allowed."""
    kinds = set(parameter.type.split("|"))
    if "string" in kinds:
        return text
    try:
        value = json.loads(text)
    except ValueError:
        value = {"true": True, "yes": True, "false": False, "no": False}.get(text.casefold(), text)
    if isinstance(value, str) and kinds.isdisjoint({"any"}):
        raise ValueError(f"{parameter.name}: {text!r} is not of type {parameter.type}")
    return value


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
    for count, error in enumerate(errors):
        if count == _MISTAKES:
            yield "and more"
            return
        place = ".".join(map(str, error.instance_path))
        if place and error.instance_path[0] in pinned:
            yield f"{error.instance_path[0]}: what the configuration gives does not fit"
        else:
            yield f"{place}: {error.message}" if place else error.message
