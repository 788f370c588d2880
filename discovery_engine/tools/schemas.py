"""JSON Schemas of arguments: repaired, simplified, without pinned arguments, and read.

Schemas are untrusted: any result is a schema of about the same size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType, NoneType
from typing import Any, TypeAlias
from urllib.parse import unquote

from msgspec import Struct

from discovery_engine._util.json import JSONValue

Schema: TypeAlias = dict[str, Any]

_DEPTH = 20  # nested branches; deeper ones become empty schemas
_BRANCHES = ("allOf", "anyOf", "oneOf")
_BRANCH = ("if", "then", "else", "not")
_SCHEMA_BY_PARAMETER = ("dependentSchemas", "dependencies")
_DEFINITIONS = ("$defs", "definitions")
_MUTE = frozenset(
    ("$schema", "$id", "id", "$comment", "title", "description", "default", *_DEFINITIONS)
)
"""Keywords that do not restrict a value."""
_DATA = frozenset(("const", "default", "enum", "examples"))
"""Keywords whose values are data, even if they look like schemas."""
_TYPES: Mapping[str, tuple[type, ...]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int, float),
    "null": (NoneType,),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}
_OF_PYTHON = {"bool": "boolean", "dict": "object", "float": "number"} | {
    "int": "integer",
    "list": "array",
    "str": "string",
}
_DELIMITED = re.compile(r"/\^.*/[a-z]*|/.*\$/[a-z]*", re.DOTALL)
"""A pattern of JavaScript, `/^a/i`, of which no text fits the delimiters."""
_SCHEMAS_BY_NAME = frozenset(
    ("properties", "patternProperties", *_SCHEMA_BY_PARAMETER, *_DEFINITIONS)
)
_LISTED_SCHEMAS = frozenset(("prefixItems", *_BRANCHES))
_SUBSCHEMAS = frozenset(
    ("additionalProperties", "propertyNames", "items", "additionalItems", "contains", *_BRANCH)
)
_INTRICATE = frozenset(("$schema", "pattern", "patternProperties"))
_KINDS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(_SCHEMAS_BY_NAME, (dict,)),
    **dict.fromkeys(_LISTED_SCHEMAS, (list,)),
    **dict.fromkeys(_SUBSCHEMAS, (dict, bool)),
    **dict.fromkeys(("required", "enum"), (list,)),
    **dict.fromkeys(("$schema", "$id", "$ref", "$comment", "title", "description"), (str,)),
    **dict.fromkeys(("pattern", "format"), (str,)),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), (int, float)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), (int,)),
}
"""The types that the value of a keyword may have."""


def object_schema(schema: JSONValue) -> Schema:
    """Return an `inputSchema` as an object's schema; if it says nothing, any object is valid."""
    if isinstance(schema, dict) and schema.get("type") == "object":
        is_plain = isinstance(schema.get("properties", {}), dict)
        if is_plain and isinstance(schema.get("required", []), list):
            return schema
    if says_nothing(schema):
        return {"type": "object", "additionalProperties": True}
    keywords = {**_without_misplaced(schema), "type": "object"}
    is_unread = schema.get("properties") and "properties" not in keywords
    return keywords | ({"additionalProperties": True} if is_unread else {})


def says_nothing(schema: JSONValue) -> bool:
    """Return whether an `inputSchema` describes no arguments."""
    if not isinstance(schema, dict) or not admits_object(schema):
        return True
    return schema.get("type") != "object" and _without_misplaced(schema).keys() <= _MUTE


def repaired(schema: Schema) -> Schema:
    """Return a schema without members of an invalid type, such as `null` or a list for a dict."""
    variant: Schema = _rewritten(schema, _without_misplaced)
    return variant


def simplified(schema: Schema) -> Schema:
    """Return a schema without patterns, `$schema`, and references that do not resolve in it."""

    def rewrite(part: Schema) -> Schema:
        others = _OTHERS if "patternProperties" in part else ()  # without it they refuse too much
        keywords = {k: v for k, v in part.items() if k not in _INTRICATE and k not in others}
        reference = part.get("$ref", "#")
        is_known = reference == "#" or pointed(schema, unquote(reference[1:])) is not None
        return keywords if is_known and reference.startswith("#") else {}

    variant: Schema = _rewritten(schema, rewrite)
    return variant


def satisfiable(schema: Schema) -> Schema:
    """Return a schema that some value fits, as its author meant it.

    It allows `null` wherever OpenAPI's `nullable` is true, and has no `enum` without a value of its
    `type` and no `pattern` with the delimiters of JavaScript (`/^a/i`).
    """
    variant: Schema = _rewritten(schema, lambda part: _nullable(_without_impossible(part)))
    return variant


def pointed(root: JSONValue, pointer: str) -> JSONValue:
    """Return the value at a JSON pointer; None if there is none."""
    target = root
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list):
            target = dict(enumerate(target)).get(int(name)) if name.isdecimal() else None
        else:
            target = target.get(name) if isinstance(target, dict) else None
    return target


def admits_object(schema: Schema) -> bool:
    """Return whether the `type` of a schema allows an object."""
    types = _types_of(schema)
    return not types or "object" in types


def _types_of(schema: Schema) -> list[str]:
    """Return the types of a schema, also in capitals or as in Python; empty if one is unknown."""
    kind = schema.get("type")
    names = [str(name).lower() for name in (kind if isinstance(kind, list) else [kind])]
    types = [_OF_PYTHON.get(name, name) for name in names]
    return types if _TYPES.keys() >= set(types) else []


def _rewritten(schema: JSONValue, rewrite: Callable[[Schema], Schema]) -> Any:
    """Return a schema with every subschema rewritten, the outer ones first."""
    if not isinstance(schema, dict):
        return schema
    keywords = rewrite(schema)
    for key, value in keywords.items():
        if key in _SCHEMAS_BY_NAME and isinstance(value, dict):
            keywords[key] = {name: _rewritten(inner, rewrite) for name, inner in value.items()}
        elif key in _LISTED_SCHEMAS and isinstance(value, list):
            keywords[key] = [_rewritten(inner, rewrite) for inner in value]
        elif key in _SUBSCHEMAS:
            keywords[key] = _rewritten(value, rewrite)
    return keywords


def _without_misplaced(schema: Schema) -> Schema:
    keywords = {key: value for key, value in schema.items() if not _is_misplaced(key, value)}
    if types := _types_of(schema):
        keywords["type"] = types if types[1:] else types[0]
    for key in _SCHEMAS_BY_NAME & keywords.keys():
        keywords[key] = {
            name: {} if inner is None else inner for name, inner in keywords[key].items()
        }
    if "required" in keywords:
        keywords["required"] = [name for name in keywords["required"] if isinstance(name, str)]
    return keywords


def _is_misplaced(key: str, value: JSONValue) -> bool:
    if key == "type":
        return True  # what can be read of it is put back
    if value is None:
        return key not in _DATA
    if key in _LISTED_SCHEMAS and not value:
        return True
    kinds = _KINDS.get(key, (object,))
    return not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)


def _without_impossible(schema: Schema) -> Schema:
    impossible: tuple[str, ...] = ()
    choices, pattern = schema.get("enum"), schema.get("pattern")
    if isinstance(choices, list):
        kinds = tuple(kind for name in _types_of(schema) for kind in _TYPES[name]) or (object,)
        if not any(isinstance(choice, kinds) for choice in choices):
            impossible = ("enum", "type") if choices else ("enum",)
    if isinstance(pattern, str) and _DELIMITED.fullmatch(pattern):
        impossible += ("pattern",)
    return {key: value for key, value in schema.items() if key not in impossible}


def _nullable(schema: Schema) -> Schema:
    if schema.get("nullable") is not True:
        return dict(schema)
    kind = schema.get("type")
    if isinstance(kind, str | list):
        keywords = {**schema, "type": [*([kind] if isinstance(kind, str) else kind), "null"]}
        choices = schema.get("enum")
        return keywords | ({"enum": [*choices, None]} if isinstance(choices, list) else {})
    own = {key: value for key, value in schema.items() if key != "nullable"}
    return {"anyOf": [own, {"type": "null"}]}


def may_take(schema: Schema, name: str) -> bool:
    """Return whether an object may have the property `name`; in doubt, it may."""
    properties = schema.get("properties")
    if isinstance(properties, dict) and name in properties:
        return True
    return any(key in schema for key in ("$ref", "patternProperties", *_BRANCHES, *_BRANCH))


def without_parameters(schema: Schema, names: Collection[str]) -> Schema:
    """Return an object's schema without the properties `names`.

    They are also removed from its branches, examples and defaults, and from the definitions that
    it refers to.
    """
    pruning = _Pruning(frozenset(names))
    rest: Schema = pruning.object(schema, _DEPTH)
    for reference in pruning.references:  # grows during the loop: definitions refer to others
        group, _, name = reference.removeprefix("#/").partition("/")
        definitions = rest.get(group)
        if group in _DEFINITIONS and isinstance(definitions, dict) and name in definitions:
            pruned = pruning.object(definitions[name], _DEPTH)
            rest = {**rest, group: {**definitions, name: pruned}}
    return rest


class _Pruning:
    """Removes properties from the schemas that describe one object."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self.references: list[str] = []
        """The references found so far, each once."""
        self._met: set[str] = set()

    def object(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, dict):
            return schema
        if not depth:
            return {}
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in self._met:
            self._met.add(reference)
            self.references.append(reference)
        return {key: self._member(key, value, depth - 1) for key, value in schema.items()}

    def _member(self, key: str, value: Any, depth: int) -> Any:
        if key in ("required", "examples", *_BRANCHES) and isinstance(value, list):
            prune = self.object if key in _BRANCHES else self._mention
            return [prune(item, depth) for item in self._others(value)]
        if key in ("properties", "default"):
            return self._mention(value, depth)
        if key == "dependentRequired" or key in _SCHEMA_BY_PARAMETER:
            return self._dependencies(value, depth)
        return self.object(value, depth) if key in _BRANCH else value

    def _dependencies(self, value: Any, depth: int) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            name: list(self._others(needs))
            if isinstance(needs, list)
            else self.object(needs, depth)
            for name, needs in value.items()
            if name not in self._names
        }

    def _mention(self, value: Any, _depth: int) -> Any:
        """Return an object without the removed properties; any other value unchanged."""
        if not isinstance(value, dict):
            return value
        return {name: member for name, member in value.items() if name not in self._names}

    def _others(self, items: list[Any]) -> Iterator[Any]:
        return (item for item in items if not (isinstance(item, str) and item in self._names))


#     {"oneOf": [{"required": ["id"]}, {"required": ["name"]}]}      one of id and name is needed
#
# Schemas are untrusted: whatever one contains, reading it takes bounded time.

WORDS_FOR_ARGUMENTS = frozenset(
    {"args", "arguments", "input", "inputs", "kwargs", "parameters", "params", "payload"}
    | {"tool_args", "tool_arguments", "tool_input", "tool_parameters", "tool_params"}
    | {"toolArgs", "toolArguments", "toolInput", "toolParameters", "toolParams"}
)
"""Names that models use for an object with all arguments of a call."""

_DEPENDENT = ("dependentSchemas", "dependencies")
_COMPOSING = frozenset(("$ref", "allOf", "anyOf", "oneOf", "then", "else", *_DEPENDENT))
_OTHERS = ("additionalProperties", "patternProperties", "propertyNames", "unevaluatedProperties")
_MAX_DESCRIBED_SUBSCHEMAS = 500  # subschemas
_ALTERNATIVES_DEPTH = 30  # references and branches, one inside the other


class ArgumentSet(Struct, frozen=True):
    needed: tuple[str, ...]
    """The required arguments that not all alternatives require."""
    values: Mapping[str, JSONValue]
    """The arguments for which the alternative allows only one value."""

    def __bool__(self) -> bool:
        return bool(self.needed or self.values)


class ArgumentChoice(Struct, frozen=True):
    """Alternative sets of arguments; a call must fit at least one."""

    alternatives: tuple[ArgumentSet, ...]
    is_exclusive: bool
    """True if a call must fit exactly one."""


class DescribedArguments(Struct, frozen=True):
    """The arguments that an object's schema describes."""

    schemas: Mapping[str, JSONValue] = MappingProxyType({})
    required: tuple[str, ...] = ()
    choices: tuple[ArgumentChoice, ...] = ()
    is_open: bool = False
    """True if the schema allows arguments that it does not name."""


def arguments_in(schema: Schema) -> DescribedArguments:
    """Return the arguments that a schema describes, also by references and in branches."""
    if not is_composed(schema):
        return _own_arguments(schema)
    arguments = _ArgumentReader(schema).arguments(schema)
    required = frozenset(arguments.required)
    choices = [_beyond(choice, required) for choice in arguments.choices]
    return DescribedArguments(
        arguments.schemas, arguments.required, tuple(filter(None, choices)), arguments.is_open
    )


def is_composed(schema: Schema) -> bool:
    """Return whether a schema may describe arguments outside of its `properties`."""
    return not schema.keys().isdisjoint(_COMPOSING)


class _ArgumentReader:
    """Reads each subschema once: branches that share references would take exponential time."""

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
        # For a reference back to this schema, and one that is read no further.
        self._read[id(schema)] = DescribedArguments(is_open=True)
        if self._depth < _ALTERNATIVES_DEPTH and len(self._read) <= _MAX_DESCRIBED_SUBSCHEMAS:
            self._depth += 1
            self._read[id(schema)] = _together([*self._parts(schema)])
            self._depth -= 1
        return self._read[id(schema)]

    def _parts(self, schema: Schema) -> Iterator[DescribedArguments]:
        yield _own_arguments(schema)
        referred = self._referred(schema)
        yield self.arguments(referred) if referred else DescribedArguments(is_open="$ref" in schema)
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
    """Merge parts that must all hold; the first description of an argument wins."""
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
    """Return the values that a schema lists; empty if it lists none."""
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
    """Return a choice without arguments required anyway; None if nothing is left to choose."""
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
