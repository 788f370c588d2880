"""Steps as an agent wrote them, read and checked before anything is sent.

    [{"id": "a", "tool": "github:list_issues", "arguments": {"state": "open"}},
     {"id": "b", "tool": "github:close_issue",
      "forEach": {"$from": "a", "path": "structuredContent.items[*].id"},
      "arguments": {"id": {"$from": "item"}}, "select": "closed"}]

An object with `$from` stands for a part of the result of an earlier step, or within `forEach` for
the present item (`item`). The part is chosen by JMESPath: data, of which no code is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.lazy_pattern import lazy_pattern
from discovery_engine._util.text import quoted
from discovery_engine.agent.meta_arguments import meant_argument
from discovery_engine.agent.result_query import PathQuery, QueryError, shape
from discovery_engine.errors import DiscoveryError
from discovery_engine.tools import limits

MOST_STEPS = 20
MOST_ITEMS = 50
"""The most items of one `forEach`."""
ITEM = "item"
"""The name in `$from` of the current item of a `forEach`."""

_FROM = "$from"
_KEYS = frozenset({"id", "server", "tool", "arguments", "forEach", "select"})
_REFERENCE_KEYS = frozenset({_FROM, "path"})
_ID = lazy_pattern(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_EXAMPLE = 'for instance [{"id": "a", "tool": "server:tool", "arguments": {}}]'
_DEPTH = 32  # levels of arguments
_MAX_REFUSED_TEXT_LENGTH = 40  # characters of what is refused


class InvalidStepsError(DiscoveryError):
    """Steps that cannot be carried out as written; nothing was sent."""

    code = "INVALID_STEPS"


class StepReference(Struct, frozen=True):
    source: str
    """The id of an earlier step, or `item`."""
    query: PathQuery | None
    """The part of its value that is taken; None for the whole."""


class CallStep(Struct, frozen=True):
    id: str
    server: str | None
    tool: str
    arguments: JSONObject
    """The arguments, with a `StepReference` in place of each part that is filled in."""
    items: JSONValue = None
    """A list, or a reference to one; None without `forEach`."""
    select: PathQuery | None = None

    @property
    def sources(self) -> frozenset[str]:
        """The ids of the steps whose results it uses."""
        names = (reference.source for reference in _references([self.arguments, self.items]))
        return frozenset(source for source in names if source != ITEM)

    @property
    def is_fixed(self) -> bool:
        """True if the arguments are known before any step has run."""
        return next(_references([self.arguments]), None) is None


def read_steps(value: JSONValue) -> tuple[CallStep, ...]:
    """The steps in their order; each uses earlier ones only, so there is no cycle.

    Raises:
        InvalidStepsError: With the id of the step, or its position.
        QueryError: If a path is no JMESPath.
    """
    if not isinstance(value, list) or not value:
        raise InvalidStepsError("`steps` must be a list of steps", hint=_EXAMPLE)
    if len(value) > MOST_STEPS:
        raise InvalidStepsError(f"there may be at most {MOST_STEPS} steps, not {len(value):,}")
    steps: dict[str, CallStep] = {}
    for at, entry in enumerate(value, start=1):
        step = _step(entry, at, list(steps), value)
        if step.id in steps:
            raise InvalidStepsError(f"two steps have the id {step.id!r}")
        steps[step.id] = step
    return tuple(steps.values())


def filled(value: JSONValue, sources: Mapping[str, JSONValue]) -> JSONValue:
    """`value` with the parts that its references choose of `sources`.

    Raises:
        InvalidStepsError: If nothing is there.
        QueryError: If a part cannot be evaluated.
    """
    match value:
        case StepReference(source, query):
            data = sources[source]
            if query is None:
                return data
            part = query.search(data)
            if part is None:
                message = f"nothing is at {query.expression} in {source!r}"
                raise InvalidStepsError(message, hint=f"it is {shape(data)}")
            return part
        case dict():
            return {name: filled(member, sources) for name, member in value.items()}
        case list():
            return [filled(item, sources) for item in value]
    return value


def _step(data: JSONValue, at: int, names: Sequence[str], entries: list[JSONValue]) -> CallStep:
    if not isinstance(data, dict):
        raise InvalidStepsError(f"step {at} must be an object", hint=_EXAMPLE)
    name = data.get("id")
    if not isinstance(name, str) or not _ID.fullmatch(name) or name == ITEM:
        raise InvalidStepsError(
            f"step {at} needs an id: a letter, then letters, digits, _ or -, at most 40,"
            f" and not {ITEM!r}"
        )
    data = {meant_argument(key, _KEYS) or key: value for key, value in data.items()}
    if unknown := data.keys() - _KEYS:
        message = f"step {name!r} has {quoted(_short(min(unknown)))}"
        raise InvalidStepsError(message, hint=f"a step has {', '.join(sorted(_KEYS))}")
    later = {
        entry["id"] for entry in entries if isinstance(entry, dict) and _is_text(entry.get("id"))
    }
    reader = _StepReader(name, names, later - set(names), has_items="forEach" in data)
    arguments = data.get("arguments", {})
    if not isinstance(arguments, dict):
        raise InvalidStepsError(f"`arguments` of step {name!r} must be an object")
    return CallStep(
        name,
        reader.name(data.get("server"), "server"),
        reader.name(data.get("tool"), "tool") or reader.missing_tool(),
        reader.value(arguments, 0),
        reader.items(data.get("forEach")),
        reader.query(data.get("select"), "select"),
    )


def _is_text(value: JSONValue) -> bool:
    return isinstance(value, str)


class _StepReader:
    """Reads the parts of one step."""

    def __init__(
        self, step: str, names: Sequence[str], later: set[str], *, has_items: bool
    ) -> None:
        self._step = step
        self._known = names
        self._later = later
        self._has_items = has_items

    def missing_tool(self) -> str:
        raise InvalidStepsError(f"step {self._step!r} has no tool", hint=_EXAMPLE)

    def name(self, value: JSONValue, what: str) -> str | None:
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise InvalidStepsError(f"{what!r} of step {self._step!r} must be a name")
        limits.require_name(what, value)
        return value.strip()

    def query(self, expression: JSONValue, what: str) -> PathQuery | None:
        if expression is None:
            return None
        if not isinstance(expression, str):
            raise InvalidStepsError(f"{what!r} of step {self._step!r} must be a string")
        try:
            return PathQuery(expression)
        except QueryError as error:
            raise QueryError(f"step {self._step!r}: {error.message}", hint=error.hint) from None

    def items(self, value: JSONValue) -> JSONValue:
        if value is None:
            if self._has_items:
                raise InvalidStepsError(f"`forEach` of step {self._step!r} is null")
            return None
        self._has_items, own = False, self._has_items  # an item cannot choose the items
        read = self.value(value, 0)
        self._has_items = own
        if isinstance(read, list):
            require_items(read, self._step)
        elif not isinstance(read, StepReference):
            message = f"`forEach` of step {self._step!r} must be a list or a reference"
            raise InvalidStepsError(message)
        return read

    def value(self, value: JSONValue, depth: int) -> JSONValue:
        if depth > _DEPTH:
            raise InvalidStepsError(f"arguments of step {self._step!r} nest too deeply")
        match value:
            case dict() if _FROM in value:
                return self._reference(value)
            case dict():
                return {name: self.value(member, depth + 1) for name, member in value.items()}
            case list():
                return [self.value(item, depth + 1) for item in value]
        return value

    def _reference(self, value: JSONObject) -> StepReference:
        if unknown := value.keys() - _REFERENCE_KEYS:
            message = f"a reference in step {self._step!r} has {quoted(_short(min(unknown)))}"
            raise InvalidStepsError(message, hint="it has `$from` and `path`")
        source = value[_FROM]
        if source == ITEM and self._has_items:
            return StepReference(ITEM, self.query(value.get("path"), "path"))
        if source in self._known:
            return StepReference(source, self.query(value.get("path"), "path"))
        raise InvalidStepsError(self._refusal(source), hint=self._choices())

    def _refusal(self, source: JSONValue) -> str:
        text = quoted(_short(source if isinstance(source, str) else "a value that is no text"))
        if source == ITEM:
            return f"step {self._step!r} refers to 'item', and has no `forEach`"
        if source == self._step:
            return f"step {self._step!r} refers to itself"
        if isinstance(source, str) and source in self._later:
            return f"step {self._step!r} refers to {text}, which comes later"
        return f"step {self._step!r} refers to {text}, which is no step"

    def _choices(self) -> str:
        if not self._known:
            return "the first step can refer to none"
        return f"a step can refer to earlier ones: {', '.join(self._known)}"


def require_items(items: Sequence[JSONValue], step: str) -> None:
    """Raises `InvalidStepsError` if there are more than `MOST_ITEMS`."""
    if len(items) > MOST_ITEMS:
        message = f"`forEach` of step {step!r} has {len(items):,} items, at most {MOST_ITEMS}"
        raise InvalidStepsError(message, hint="take a slice of the list, such as `[0:50]`")


def _references(value: JSONValue) -> Iterator[StepReference]:
    match value:
        case StepReference():
            yield value
        case dict():
            for member in value.values():
                yield from _references(member)
        case list():
            for item in value:
                yield from _references(item)


def _short(text: str) -> str:
    return limits.shortened(text, _MAX_REFUSED_TEXT_LENGTH)
