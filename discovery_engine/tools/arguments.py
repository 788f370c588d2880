"""The arguments of a call: read from words, checked against the tool's schema.

A mistake raises an error with the tool's signature before anything is sent. If the schema cannot be
used, arguments are sent unchecked, and the server judges them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from types import MappingProxyType

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue, parse_json
from discovery_engine._util.suggestions import nearest
from discovery_engine._util.text import named, one_line
from discovery_engine.errors import InvalidArgumentsError
from discovery_engine.tools.conversion import (
    Conversion,
    by_declared_names,
    converted_places,
    exact_reading,
)
from discovery_engine.tools.limits import ARGUMENTS, require_names, shortened
from discovery_engine.tools.mistakes import Errors, Mistake, mistakes_of
from discovery_engine.tools.model import Parameter, Tool
from discovery_engine.tools.schema_cost import (
    OF_PATTERN,
    TOO_LONG,
    UNBOUNDED,
    count_of,
    size_of,
    weight_of,
)
from discovery_engine.tools.schemas import WORDS_FOR_ARGUMENTS, repaired, satisfiable, simplified
from discovery_engine.tools.signature import signature
from discovery_engine.tools.subschemas import Subschemas

logger = logging.getLogger(__name__)

# Values times keywords for a validation without errors, at some 10 ns each.
_MAX_VALIDATOR_WORK = 4_000_000
_MAX_LISTED_WORK = 4_000  # the same for a list of errors, at some 50 us each, in all branches
_SAMPLE = 5  # elements of each list, if the whole value is too large
_OF_LENGTH = frozenset(("minItems", "contains"))
"""Errors that the sample of a list may have although the whole list is valid."""
_TOO_LARGE = "they do not fit its schema, and are too many to say where"
_MISTAKES = 8  # reported at once; more would bury the signature
_LISTED = _MISTAKES + 1  # to detect that there are more
_SENTENCE = 300  # characters of a mistake
_COMPARED = 100  # names that an unknown one is compared with
_MASK = "it"  # in place of values in messages, if the owner pins some
_UNDESCRIBED = "its server does not describe them"
_UNUSABLE = "the schema of the tool cannot be used"
_COUNTED_TWICE = ('"$ref"', '"$dynamicRef"', '"$recursiveRef"', '"unevaluated')

_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_FORMS = {"array": """it as JSON: '["…"]'""", "object": """it as JSON: '{"…": …}'"""}


class Checked(Struct, frozen=True):
    arguments: JSONObject
    """The arguments to send, besides those that the owner pins."""
    converted: tuple[str, ...] = ()
    """Places at which they differ from the caller's: `limit`, `filter.ids.0`."""
    unchecked: str = ""
    """The reason why they were not checked, in a few words; empty if they were."""


class Checker:
    """Checks arguments for one tool; worth keeping, since creating it costs more than a check.

    The validator blocks the event loop. So it runs only if the sizes of schema and value show that
    it is fast; otherwise arguments are left to the server.
    """

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._schema = satisfiable(tool.upstream_schema)
        self._mask = _MASK if tool.overridden.pinned else None
        self._unchecked = "" if tool.is_described else _UNDESCRIBED
        self._subschemas = self._compiled()

    def _compiled(self) -> Subschemas:
        """Compile the schema, repaired if it is invalid, or one that allows anything."""
        for repair in (None, repaired, simplified):
            self._schema = repair(self._schema) if repair else self._schema
            try:
                return Subschemas(self._schema, self._mask)
            except ValueError as exc:
                reason = one_line(str(exc))  # the message quotes the schema
        label = self._tool.key.label
        logger.warning("The schema of %s cannot check arguments: %s", label, reason)
        self._unchecked = _UNUSABLE
        return Subschemas({})

    def check(
        self, arguments: JSONObject, pinned: Mapping[str, JSONValue] = MappingProxyType({})
    ) -> Checked | None:
        """Check `arguments` against the tool's schema; nothing is fetched for a `$ref`.

        An invalid value that has one valid reading is converted.

        Args:
            arguments: The arguments of the caller.
            pinned: The values that the owner pins. No error shows them.

        Returns:
            The arguments to send instead, or unchecked; None if they are valid unchanged.

        Raises:
            InputTooLongError: If there are too many, or the name of one is too long.
            InvalidArgumentsError: With every mistake and the tool's signature.
        """
        above: tuple[str, ...] = ()
        if len(arguments) == 1 and not WORDS_FOR_ARGUMENTS.isdisjoint(arguments):
            arguments, above = _unwrapped(self._tool, arguments)
        if pinned and (wrong := [name for name in pinned if name in arguments]):
            mistakes = [f"{named(name)} is given by the configuration" for name in wrong]
            raise _invalid(self._tool, mistakes)
        require_names("argument", arguments, most=ARGUMENTS)
        if self._unchecked:
            return Checked(arguments, above, self._unchecked)
        original, places = arguments, above
        if not original.keys() <= self._declared and not self._tool.takes_any:
            arguments = by_declared_names(original, self._declared)
            places += tuple(name for name in original if name not in arguments)
        value = {**arguments, **pinned} if pinned else arguments
        size = size_of(value)
        if size is UNBOUNDED:
            raise _invalid(self._tool, ["they nest too deeply"])
        is_quick = (
            size * self._quick_weight <= _MAX_VALIDATOR_WORK
            or size * self._weight <= _MAX_VALIDATOR_WORK
        )
        if not is_quick:
            return Checked(arguments, places, TOO_LONG)
        try:
            if self._subschemas.whole.is_valid(value):
                return Checked(arguments, places) if places else None
            errors = self._errors(value)
        except ValueError as error:
            reason = shortened(f"they cannot be read: {error}", _SENTENCE)
            return Checked(arguments, places, reason)
        fitting = self._fitting(value, pinned, errors)
        if fitting is not None:
            return Checked(fitting, (*above, *converted_places(original, fitting)))
        listed = list(islice(mistakes_of(errors, self._subschemas), _LISTED))
        sentences = [*_sentences(listed, pinned), *_slips(self._tool, arguments)]
        raise _invalid(self._tool, [*(sentences or [_TOO_LARGE]), *map(_misplaced, above)])

    def _is_listable(self, value: JSONObject) -> bool:
        """Return whether the errors of `value` are few enough to list."""
        return count_of(value, _MAX_LISTED_WORK) * self._weight <= _MAX_LISTED_WORK

    def _errors(self, value: JSONObject) -> Errors:
        """Return the errors of `value`; those of samples of its lists if it is too large."""
        if self._is_listable(value):
            return list(self._subschemas.whole.iter_errors(value))
        sample = _sampled(value)
        errors = self._subschemas.whole.iter_errors(sample) if self._is_listable(sample) else ()
        return [error for error in errors if error.kind.name not in _OF_LENGTH]

    def _fitting(
        self, value: JSONObject, pinned: Mapping[str, JSONValue], errors: Errors
    ) -> JSONObject | None:
        """Return the caller's arguments, converted to be valid; None if they cannot be."""
        if not self._is_listable(value):
            return None
        fitting = Conversion(self._subschemas).fitting(value, errors)
        if fitting is None or any(fitting.get(name) is not pinned[name] for name in pinned):
            return None
        return {name: member for name, member in fitting.items() if name not in pinned}

    @cached_property
    def _declared(self) -> frozenset[str]:
        return frozenset(parameter.name for parameter in self._tool.parameters)

    @cached_property
    def _quick_weight(self) -> float:
        """An upper bound of the weight, counted in the schema's text if it has no references."""
        text = self._tool.source
        if any(keyword in text for keyword in _COUNTED_TWICE):
            return self._weight
        return 1 + text.count("{") + text.count(",") + OF_PATTERN * text.count('"pattern')

    @cached_property
    def _weight(self) -> float:
        return weight_of(self._subschemas.graph)


def mistakes_in(schema: JSONObject, value: JSONValue) -> tuple[str, ...]:
    """Return the mistakes of a value by a schema that is not a tool's, in bounded time.

    Empty if the value is valid, or if it cannot be checked.
    """
    try:
        subschemas = Subschemas(schema)
        if count_of(value, _MAX_LISTED_WORK) * weight_of(subschemas.graph) > _MAX_LISTED_WORK:
            return ()
        errors = list(subschemas.whole.iter_errors(value))
    except ValueError:
        return ()
    return tuple(_sentences([*mistakes_of(errors, subschemas)], ()))


def from_words(tool: Tool, words: Sequence[str]) -> JSONObject:
    """Read arguments from a command line: `key=value` by name, others by position.

    Positional words fill the parameters in the order of the signature (required first, then by
    name), leaving out those given by name. Each value is parsed by the parameter's type.
    A word that begins like `key=` names a parameter, so that a misspelt name is never taken for
    the value of another. A single word that is a JSON object of parameters holds all arguments.
    If the parameters are unknown, any name is accepted.

    Raises:
        InvalidArgumentsError: If there are more words than parameters, or a word names no
            parameter, one that has a value already, or does not read as its type.
    """
    by_name = {parameter.name: parameter for parameter in tool.parameters}
    document = _document(words)
    if document and (tool.takes_unnamed or document.keys() <= by_name.keys()):
        return document
    if tool.takes_unnamed:
        keys = (word.partition("=")[0] for word in words if "=" in word)
        by_name = {key: Parameter(key, "any", "", required=False, schema={}) for key in keys}
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


def _document(words: Sequence[str]) -> JSONObject:
    """Parse a single word that is a JSON object; empty if there is no such word."""
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        with suppress(ValueError):
            value: JSONObject = parse_json(words[0])
            return value
    return {}


def _invalid(tool: Tool, mistakes: Sequence[str]) -> InvalidArgumentsError:
    return InvalidArgumentsError(tool.server, tool.name, mistakes, signature(tool))


def _sorted_out(
    words: Sequence[str], names: Collection[str]
) -> tuple[dict[str, str], list[str], list[str]]:
    """Split words into values by name, values by position, and mistakes in the names."""
    by_key: dict[str, str] = {}
    positional: list[str] = []
    mistakes: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or (key not in names and not _NAME.fullmatch(key)):
            positional.append(word)
        elif key not in names:
            mistakes.append(_stranger(key, names))
        elif key in by_key:
            mistakes.append(f"{named(key)} is given twice")
        else:
            by_key[key] = value
    return by_key, positional, mistakes


def _stranger(key: str, known: Collection[str]) -> str:
    meant = nearest(key, known)
    return f"there is no argument {key!r}" + (f", did you mean {meant[0]!r}?" if meant else "")


def _read(parameter: Parameter, text: str) -> JSONValue:
    """Parse `text` by the parameter's type; if that allows a string, return it unchanged.

    Raises:
        ValueError: If it is of no type that the parameter allows.
    """
    kinds = set(parameter.type.split("|"))
    if "string" in kinds:
        return text
    try:
        value = parse_json(text)
    except ValueError:
        value = {"true": True, "yes": True, "false": False, "no": False}.get(text.casefold(), text)
    if isinstance(value, str) and kinds.isdisjoint({"any"}):
        form = next((f", write {_FORMS[kind]}" for kind in _FORMS if kind in kinds), "")
        kind = " or ".join(map(named, parameter.type.split("|")))
        raise ValueError(f"{named(parameter.name)}: {text!r} is not of type {kind}{form}")
    return value


def _unwrapped(tool: Tool, arguments: JSONObject) -> tuple[JSONObject, tuple[str, ...]]:
    """Unwrap `{"arguments": {…}}`; return the arguments inside, and the name of the wrapper.

    Arguments without a wrapper are returned unchanged, with no name.
    """
    [(name, content)] = arguments.items()
    parameters = {parameter.name for parameter in tool.parameters}
    if name in parameters or not parameters or tool.takes_any:
        return arguments, ()
    inner = exact_reading(content) if isinstance(content, str) else content
    is_meant = isinstance(inner, dict) and (not inner or not parameters.isdisjoint(inner))
    return (inner, (name,)) if is_meant else (arguments, ())


def _misplaced(name: str) -> str:
    return f"they belong directly into the arguments, not under {named(name)}"


def _slips(tool: Tool, arguments: JSONObject) -> Iterator[str]:
    """Yield a sentence for each misspelt argument, and for one that wraps all others."""
    names = {parameter.name for parameter in tool.parameters}
    missing = [p.name for p in tool.parameters if p.required and p.name not in arguments]
    strange = (name for name in arguments if name not in names)
    for name in islice(strange, _MISTAKES):
        if nearest(name, missing[:_COMPARED]):
            yield _stranger(name, known=missing[:_COMPARED])
        elif name in WORDS_FOR_ARGUMENTS and isinstance(arguments[name], dict):
            yield _misplaced(name)


def _sampled(value: JSONValue) -> JSONValue:
    """Return `value` with only the first elements of each list."""
    if isinstance(value, dict):
        return {name: _sampled(member) for name, member in value.items()}
    return [*map(_sampled, value[:_SAMPLE])] if isinstance(value, list) else value


def _sentences(found: Sequence[Mistake], pinned: Container[str]) -> Iterator[str]:
    mistakes = found[:_MISTAKES]
    if missing := [
        named(mistake.missing) for mistake in mistakes if mistake.missing and not mistake.path
    ]:
        yield f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
    for mistake in mistakes:
        if mistake.path or not mistake.missing:
            yield one_line(shortened(_sentence(mistake, pinned), _SENTENCE))
    if found[_MISTAKES:]:
        yield "and more"


def _sentence(mistake: Mistake, pinned: Container[str]) -> str:
    if not mistake.path:
        return mistake.message
    if mistake.path[0] in pinned:
        return f"{named(str(mistake.path[0]))}: what the configuration gives does not fit"
    return f"{named('.'.join(map(str, mistake.path)))}: {mistake.message}"
