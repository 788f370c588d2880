"""Upper bounds for the cost of a check, estimated from the schema before any value is seen.

A validator without a cache checks a value once for each path through the schema that leads to it.
In a chain of `$ref`s that each branch in two, the paths double with every link. If a schema refers
to itself from two branches, they double with every level of the value.
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
"""The cost of matching a pattern, as a number of other keywords."""
DEPENDENT = "what one part allows depends on the others (`unevaluated…`)"

_MAX_VALIDATION_COST = 2_000  # subschemas that may apply to one value
_MOST_LOOKED_AT = 10_000  # subschemas in all, one for each path to them: some 20 ms
_SHORT = 2 * _MOST_LOOKED_AT
"""Characters of JSON that cannot hold so many subschemas: `{},` is the shortest."""
_REFERENCE = re.compile(r'"\$(?:ref|dynamicRef|recursiveRef)"')
_OF_UNEVALUATED = 3  # factor: the validator checks all subschemas alongside again
_OF_VALUE = 2  # characters of JSON that the smallest value in a list takes


def size_of(value: JSONValue) -> float:
    """Return an upper bound for the number of values inside, from the length of its JSON.

    `UNBOUNDED` if they nest so deeply that a validator might run out of stack.
    """
    try:
        # Ten times faster than counting: 0.2 us for a few arguments, 10 ms for a million.
        return len(msgspec.json.encode(value)) // _OF_VALUE + 1
    except RecursionError:
        return UNBOUNDED
    except (TypeError, ValueError):  # a lone surrogate, or a value that JSON does not have
        return len(json.dumps(value, default=str)) // _OF_VALUE + 1


def count_of(value: JSONValue, most: int) -> int:
    """Count the values inside, `value` included; stops at a number beyond `most`."""
    count, left = 1, [value]
    while left and count <= most:
        part = left.pop()
        members = part.values() if isinstance(part, dict) else part
        if isinstance(part, dict | list):
            count += len(part)
            left += members
    return count


def weight_of(graph: SchemaGraph) -> float:
    """Return the most that one value may cost, in keywords; `UNBOUNDED` if there is no limit."""
    try:
        return _Weigher(graph).weight(graph.root)
    except (UnreadableSchemaError, RecursionError):
        return UNBOUNDED


def too_costly(schema: JSONObject) -> str | None:
    """Return the reason why a check may take exponential time; None if it cannot."""
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

    A schema without references has no more paths than subschemas. Searching its text for one takes
    0.3 us a tool; weighing it takes 98 us.
    """
    source = tool.source
    if len(source) <= _SHORT and not _REFERENCE.search(source):
        return None
    return too_costly(tool.upstream_schema)


class _Weighed:
    """The weight of a subschema, together with all that apply to the same value."""

    def __init__(self, own: float, members: list[list[JSONObject]], number: int) -> None:
        self.own = own
        self.members = members
        self.number = self.lowest = number
        self.circle: list[_Weighed] | None = None
        """The strongly connected component that it is in; None until that is complete."""
        self.weight = UNBOUNDED
        self.total = UNBOUNDED
        """The weight of a value with its members; `UNBOUNDED` if the schema refers to itself."""


class _Weigher:
    """Finds circles by Tarjan's algorithm, and weighs each one when it is complete."""

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
        """Return every subschema for the same value, as many times as it is checked."""
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
    """Return the weight of the subschemas that apply to one member of a value, in a circle.

    One of them in the circle adds the same cost with every level of the value. Two double it with
    every level, and so does one beside another circle: both are `UNBOUNDED`.
    """
    others = [inner for inner in group if inner.circle is not circle]
    if len(others) == len(group):
        return sum(inner.weight for inner in others)
    return UNBOUNDED if len(group) - len(others) > 1 else sum(inner.total for inner in others)


def _members(alongside: list[SchemaNode]) -> Iterator[list[JSONObject]]:
    """Yield the subschemas that apply to the same member, for each possible member."""
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
