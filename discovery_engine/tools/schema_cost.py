"""How much a check can cost: known of a schema before any value is seen.

A validator that remembers nothing asks about a value as often as there are ways through the
schema to it. In a chain of `$ref`s that each branch in two, these double with every link; where a
schema refers to itself from two branches, with every level of the value.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

import msgspec

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.tools.model import Tool
from discovery_engine.tools.schema_graph import (
    Schema,
    SchemaGraph,
    SchemaNode,
    UnreadableSchemaError,
)

TOO_LONG = "checking them takes too long"
UNBOUNDED = math.inf
OF_PATTERN = 8
"""A match costs as much as so many other keywords."""
DEPENDENT = "what one part allows depends on the others (`unevaluated…`)"

_MAX_VALIDATION_COST = 2_000  # subschemas that one value may be asked about
_MOST_LOOKED_AT = 10_000  # subschemas in all, each as often as a way leads to it: some 20 ms
_SHORT = 2 * _MOST_LOOKED_AT
"""Characters of JSON that hold fewer subschemas than may be looked at: `{},` is the least."""
_REFERENCE = re.compile(r'"\$(?:ref|dynamicRef|recursiveRef)"')
_OF_UNEVALUATED = 3  # the validator asks all that stands alongside again
_OF_VALUE = 2  # characters of JSON that the smallest value in a list takes


def size_of(value: JSONValue) -> float:
    """At least how many values are inside, from the length of its JSON.

    `UNBOUNDED` if they nest so deeply that a validator might run out of stack.
    """
    try:
        # Ten times quicker than to count: 0.2 us for a few arguments, 10 ms for a million.
        return len(msgspec.json.encode(value)) // _OF_VALUE + 1
    except RecursionError:
        return UNBOUNDED
    except (TypeError, ValueError):  # half a surrogate, or what is no JSON
        return len(json.dumps(value, default=str)) // _OF_VALUE + 1


def count_of(value: JSONValue, most: int) -> int:
    """How many values are inside, itself among them; a number beyond `most` if there are more."""
    count, left = 1, [value]
    while left and count <= most:
        part = left.pop()
        members = part.values() if isinstance(part, dict) else part
        if isinstance(part, dict | list):
            count += len(part)
            left += members
    return count


def weight_of(graph: SchemaGraph) -> float:
    """The most that one value may cost, in keywords; `UNBOUNDED` if it depends on the value."""
    try:
        return _Weigher(graph).weight(graph.root)
    except (UnreadableSchemaError, RecursionError):
        return UNBOUNDED


def too_costly(schema: JSONObject) -> str | None:
    """Why a check with a schema may take exponential time; None if it cannot."""
    weigher = _Weigher(SchemaGraph(schema))
    try:
        weight = weigher.weight(schema)
    except UnreadableSchemaError as error:
        return str(error)
    except RecursionError:
        return "its references go too deep"
    if weight is UNBOUNDED and weigher.has_unevaluated:
        return f"it refers to itself, and {DEPENDENT}"
    return None


def too_costly_tool(tool: Tool) -> str | None:
    """Return `too_costly` of a tool's arguments; cheap enough for all tools of a catalog.

    Without a reference there are no more ways through a schema than subschemas. To see in the text
    that it has none takes 0.3 us a tool; to weigh it took 98.
    """
    source = tool.source
    if len(source) <= _SHORT and not _REFERENCE.search(source):
        return None
    return too_costly(tool.upstream_schema)


class _Weighed:
    """The weight of a subschema and of all that are applied to the same value."""

    def __init__(self, own: float, members: list[list[JSONObject]], number: int) -> None:
        self.own = own
        self.members = members
        self.number = self.lowest = number
        self.circle: list[_Weighed] | None = None
        """All that it refers to and that refer to it; empty if it does not come back to itself."""
        self.weight = UNBOUNDED
        self.total = UNBOUNDED
        """The weight of all values inside together, where it does not depend on the value."""


class _Weigher:
    """Looks for circles as Tarjan did, and weighs each when it is known as a whole."""

    def __init__(self, graph: SchemaGraph) -> None:
        self._graph = graph
        self._weighed: dict[int, _Weighed] = {}
        self._open: list[_Weighed] = []
        self._looked_at = 0
        self.has_unevaluated = False

    def weight(self, schema: JSONObject) -> float:
        return self._of(schema).weight

    def _of(self, schema: JSONObject) -> _Weighed:
        entry = self._weighed.get(id(schema))
        if entry is None:
            entry = self._weigh(schema)
        return entry

    def _weigh(self, schema: JSONObject) -> _Weighed:
        alongside = self._alongside(schema)
        groups = [group for group in _members(alongside) if group]
        self._look_at(sum(map(len, groups)))
        own = sum(map(_of_itself, alongside))
        entry = self._weighed[id(schema)] = _Weighed(own, groups, len(self._weighed))
        self._open.append(entry)
        for group in groups:
            for inner in map(self._of, group):
                if inner.circle is None:
                    entry.lowest = min(entry.lowest, inner.lowest)
        if entry.lowest == entry.number:
            self._close(entry)
        return entry

    def _close(self, first: _Weighed) -> None:
        place = self._open.index(first)
        circle = self._open[place:]
        del self._open[place:]
        for entry in circle:
            entry.circle = circle
        inside = [list(map(self._of, group)) for entry in circle for group in entry.members]
        own = max(entry.own for entry in circle)
        if any(inner.circle is circle for group in inside for inner in group):
            weight, total = own + sum(_of_group(group, circle) for group in inside), UNBOUNDED
        else:
            weight = max([own, *(sum(inner.weight for inner in group) for group in inside)])
            total = own + sum(inner.total for group in inside for inner in group)
        for entry in circle:
            entry.weight = weight if weight <= _MAX_VALIDATION_COST else UNBOUNDED
            entry.total = total

    def _alongside(self, schema: JSONObject) -> list[SchemaNode]:
        """Every subschema that is asked about the same value, as often as it is."""
        nodes: list[SchemaNode] = []
        left: list[Schema] = [schema]
        while left:
            part = left.pop()
            if isinstance(part, dict):
                node = self._graph.node(part)
                nodes.append(node)
                self.has_unevaluated |= node.is_unevaluated
                left += [*node.alongside] * (_OF_UNEVALUATED if node.is_unevaluated else 1)
                self._look_at(1 if len(nodes) <= _MAX_VALIDATION_COST else _MOST_LOOKED_AT)
        return nodes

    def _look_at(self, count: int) -> None:
        self._looked_at += count
        if self._looked_at > _MOST_LOOKED_AT:
            raise UnreadableSchemaError(
                f"there are more than {_MAX_VALIDATION_COST:,} ways through it"
            )


def _of_group(group: list[_Weighed], circle: list[_Weighed]) -> float:
    """Return the weight of what is applied to one member of a value in a circle.

    One subschema of the circle goes round once more. Two would double with every level, and so does
    one beside which another circle begins.
    """
    others = [inner for inner in group if inner.circle is not circle]
    if len(others) == len(group):
        return sum(inner.weight for inner in others)
    return UNBOUNDED if len(group) - len(others) > 1 else sum(inner.total for inner in others)


def _members(alongside: list[SchemaNode]) -> Iterator[list[JSONObject]]:
    """The subschemas that are asked about the same member, for every member there can be."""
    named: defaultdict[str, list[Schema]] = defaultdict(list)
    for node in alongside:
        for name, schema in node.properties.items():
            named[name].append(schema)
    by_pattern = [schema for node in alongside for schema in node.patterns.values()]
    others = [node for node in alongside if isinstance(node.others, dict)]
    yield _objects([*by_pattern, *(node.others for node in others)])
    for name, schemas in named.items():
        rest = (node.others for node in others if name not in node.properties)
        yield _objects([*schemas, *by_pattern, *rest])
    contained = [node.contains for node in alongside if node.contains is not None]
    for place in range(1 + max((len(node.prefix) for node in alongside), default=0)):
        yield _objects([*(node.of_element(place) for node in alongside), *contained])
    yield _objects([node.names for node in alongside])


def _objects(schemas: list[Schema]) -> list[JSONObject]:
    return [schema for schema in schemas if isinstance(schema, dict)]


def _of_itself(node: SchemaNode) -> int:
    assertions = node.assertions
    patterns = len(node.patterns) + ("pattern" in assertions)
    return 1 + len(assertions) + OF_PATTERN * patterns + sum(map(_length, assertions.values()))


def _length(value: JSONValue) -> int:
    """Return the length of a list of choices or names; a validator looks at each."""
    return len(value) if isinstance(value, list | Mapping) else 0
