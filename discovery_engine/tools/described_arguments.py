"""The arguments that a schema describes: its own, and those behind references and in branches.

    {"oneOf": [{"required": ["id"]}, {"required": ["name"]}]}      one of id and name is needed

Schemas are untrusted: whatever one contains, reading it takes bounded time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from urllib.parse import unquote

from msgspec import Struct

from discovery_engine._util.json import JSONValue
from discovery_engine.tools.schemas import Schema, admits_object, pointed

WORDS_FOR_ARGUMENTS = frozenset(
    {"args", "arguments", "input", "inputs", "kwargs", "parameters", "params", "payload"}
    | {"tool_args", "tool_arguments", "tool_input", "tool_parameters", "tool_params"}
    | {"toolArgs", "toolArguments", "toolInput", "toolParameters", "toolParams"}
)
"""Words that models use for all the arguments of a call."""

_DEPENDENT = ("dependentSchemas", "dependencies")
_COMPOSING = frozenset(("$ref", "allOf", "anyOf", "oneOf", "then", "else", *_DEPENDENT))
_OTHERS = ("additionalProperties", "patternProperties")
_MAX_DESCRIBED_SUBSCHEMAS = 500  # subschemas
_DEPTH = 30  # references and branches, one inside the other


class ArgumentSet(Struct, frozen=True):
    needed: tuple[str, ...]
    """The arguments that it requires and others do not."""
    values: Mapping[str, JSONValue]
    """The arguments for which it allows a single value."""

    def __bool__(self) -> bool:
        return bool(self.needed or self.values)


class ArgumentChoice(Struct, frozen=True):
    """Alternatives of which arguments fit at least one."""

    alternatives: tuple[ArgumentSet, ...]
    is_exclusive: bool
    """True if the arguments must not fit a second alternative."""


class DescribedArguments(Struct, frozen=True):
    """The arguments that the schema of an object describes."""

    schemas: Mapping[str, JSONValue] = MappingProxyType({})
    required: tuple[str, ...] = ()
    choices: tuple[ArgumentChoice, ...] = ()
    is_open: bool = False
    """True if the schema says that there may be other arguments."""


def arguments_in(schema: Schema) -> DescribedArguments:
    """The arguments that a schema describes, also behind references and in branches."""
    if not is_composed(schema):
        return _own_arguments(schema)
    arguments = _ArgumentReader(schema).arguments(schema)
    required = frozenset(arguments.required)
    choices = [_beyond(choice, required) for choice in arguments.choices]
    return DescribedArguments(
        arguments.schemas, arguments.required, tuple(filter(None, choices)), arguments.is_open
    )


def is_composed(schema: Schema) -> bool:
    """Return whether a schema may describe arguments elsewhere than in its `properties`."""
    return not schema.keys().isdisjoint(_COMPOSING)


class _ArgumentReader:
    """Reads each subschema once, as a chain of branching references doubles with every link."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._read: dict[int, DescribedArguments] = {}
        self._depth = 0

    def arguments(self, schema: JSONValue) -> DescribedArguments:
        if not isinstance(schema, dict):
            return DescribedArguments()
        reading = self._read.get(id(schema))
        if reading is not None:
            return reading
        self._read[id(schema)] = DescribedArguments()  # a reference that leads back adds nothing
        if self._depth < _DEPTH and len(self._read) <= _MAX_DESCRIBED_SUBSCHEMAS:
            self._depth += 1
            self._read[id(schema)] = _together([*self._parts(schema)])
            self._depth -= 1
        return self._read[id(schema)]

    def _parts(self, schema: Schema) -> Iterator[DescribedArguments]:
        yield _own_arguments(schema)
        yield self.arguments(self._referred(schema))
        yield from map(self.arguments, _list(schema.get("allOf")))
        for keyword in ("anyOf", "oneOf"):
            if branches := [b for b in _list(schema.get(keyword)) if self._admits_object(b)]:
                yield self._either(branches, is_exclusive=keyword == "oneOf")
        conditional = [schema.get("then"), schema.get("else")]
        for dependent in map(schema.get, _DEPENDENT):
            conditional += dependent.values() if isinstance(dependent, dict) else ()
        for branch in conditional:
            yield DescribedArguments(self.arguments(branch).schemas)

    def _either(self, branches: Sequence[JSONValue], *, is_exclusive: bool) -> DescribedArguments:
        read = [self.arguments(branch) for branch in branches]
        required = [name for name in read[0].required if all(name in r.required for r in read)]
        alternatives = [
            ArgumentSet(
                tuple(name for name in branch.required if name not in required),
                {
                    name: choices[0]
                    for name in branch.required
                    if len(choices := _choices(branch.schemas.get(name))) == 1
                },
            )
            for branch in read
        ]
        schemas: dict[str, list[JSONValue]] = {}
        for branch in read:
            for name, schema in branch.schemas.items():
                variants = schemas.setdefault(name, [])
                if schema not in variants:
                    variants.append(schema)
        return DescribedArguments(
            {name: _any_of(variants) for name, variants in schemas.items()},
            tuple(required),
            (ArgumentChoice(tuple(alternatives), is_exclusive),)
            if len(read) > 1
            else read[0].choices,
            any(branch.is_open for branch in read),
        )

    def _admits_object(self, schema: JSONValue) -> bool:
        if not isinstance(schema, dict):
            return False
        target = self._referred(schema)
        return admits_object(target if isinstance(target, dict) else schema)

    def _referred(self, schema: Schema) -> JSONValue:
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return None
        return pointed(self._root, unquote(reference[1:]))


def _own_arguments(schema: Schema) -> DescribedArguments:
    properties, required = schema.get("properties"), schema.get("required")
    return DescribedArguments(
        properties if isinstance(properties, dict) else {},
        tuple(name for name in _list(required) if isinstance(name, str)),
        (),
        any(schema.get(keyword) for keyword in _OTHERS),
    )


def _together(parts: Sequence[DescribedArguments]) -> DescribedArguments:
    """Combine parts that must all hold; the first description of an argument counts."""
    schemas: dict[str, JSONValue] = {}
    for part in parts:
        for name, schema in part.schemas.items():
            if not schemas.get(name) or schemas[name] is True:
                schemas[name] = schema
    return DescribedArguments(
        schemas,
        tuple(dict.fromkeys(name for part in parts for name in part.required)),
        tuple(choice for part in parts for choice in part.choices),
        any(part.is_open for part in parts),
    )


def _choices(schema: JSONValue) -> Sequence[JSONValue]:
    """The values that a schema lists; empty if it lists none."""
    if not isinstance(schema, dict):
        return ()
    choices = schema.get("enum")
    return [schema["const"]] if "const" in schema else choices if isinstance(choices, list) else ()


def _any_of(variants: Sequence[JSONValue]) -> JSONValue:
    if len(variants) == 1:
        return variants[0]
    texts = (variant.get("description") for variant in variants if isinstance(variant, dict))
    description = next(filter(None, texts), None)
    return {"anyOf": list(variants)} | ({"description": description} if description else {})


def _beyond(choice: ArgumentChoice, required: Collection[str]) -> ArgumentChoice | None:
    """A choice among what is not required anyway; None if there is nothing to choose."""
    alternatives = tuple(
        ArgumentSet(
            tuple(name for name in alternative.needed if name not in required), alternative.values
        )
        for alternative in choice.alternatives
    )
    is_one = len(set(map(repr, alternatives))) == 1
    return (
        None
        if is_one or not all(alternatives)
        else ArgumentChoice(alternatives, choice.is_exclusive)
    )


def _list(value: JSONValue) -> Iterable[JSONValue]:
    return value if isinstance(value, list) else ()
