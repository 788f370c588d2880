"""Validators of one untrusted schema and of its parts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from typing import TypeAlias
from urllib.parse import quote

import jsonschema_rs

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.tools.schema_graph import (
    Schema,
    SchemaGraph,
    SchemaNode,
    UnreadableSchemaError,
)

Path: TypeAlias = tuple[str | int, ...]

_ADDRESS = "urn:arguments"
_OF_PATTERNS = 8 << 20  # bytes of all compiled patterns of a schema: up to 15 ms per million


class Subschemas:
    """Compiles validators of a schema; no `$ref` is fetched, and a `pattern` takes linear time.

    A short pattern may be large once it is compiled, so all patterns share one memory limit.
    """

    def __init__(self, root: JSONObject, mask: str | None = None) -> None:
        """Compile the schema as a whole; `mask` stands for values in messages.

        Raises:
            ValueError: If the schema is invalid.
        """
        self.root = root
        self.mask = mask
        share = _OF_PATTERNS // max(1, _patterns_in(root))
        options = jsonschema_rs.RegexOptions(size_limit=share, dfa_size_limit=share)
        self._compile = partial(
            jsonschema_rs.validator_for, offline=True, pattern_options=options, mask=mask
        )
        self.whole: jsonschema_rs.Validator = self._compile(root)
        self._validators: dict[Path, jsonschema_rs.Validator] = {}

    def validator(self, path: Path) -> jsonschema_rs.Validator:
        """Return the validator of a subschema; schema paths of its errors start at the root."""
        if path not in self._validators:
            pointer = "".join(f"/{_escaped(str(step))}" for step in path)
            reference = {"$ref": f"{_ADDRESS}#{pointer}"}
            self._validators[path] = self._compile(reference, registry=self._registry)
        return self._validators[path]

    def conjuncts(self, path: Path) -> Iterator[SchemaNode]:
        """Yield the subschemas that always apply with the one at `path`: `$ref` and `allOf`.

        Raises:
            UnreadableSchemaError: If there is none, or a reference cannot be resolved.
        """
        schema: JSONValue = self.root
        try:
            for step in path:
                schema = schema[step]
        except (KeyError, IndexError, TypeError) as error:  # a part has an address of its own
            raise UnreadableSchemaError(str(error)) from error
        left: list[Schema] = [schema]
        seen: set[int] = set()
        while left:
            part = left.pop()
            if isinstance(part, dict) and id(part) not in seen:
                seen.add(id(part))
                node = self.graph.node(part)
                yield node
                left += [*node.references, *node.all_of]

    @cached_property
    def graph(self) -> SchemaGraph:
        return SchemaGraph(self.root)

    @cached_property
    def _registry(self) -> jsonschema_rs.Registry:
        return jsonschema_rs.Registry([(_ADDRESS, self.root)])


def _escaped(step: str) -> str:
    return quote(step.replace("~", "~0").replace("/", "~1"), safe="~")


def _patterns_in(value: JSONValue) -> int:
    count = 0
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            patterns = part.get("patternProperties")
            count += "pattern" in part
            count += len(patterns) if isinstance(patterns, dict) else 0
            left += part.values()
        elif isinstance(part, list):
            left += part
    return count
