"""The tools of servers that a client uses by their own names, as `server.expose` has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.text import clean, one_line
from discovery_engine.agent.answer_rendering import app_meta
from discovery_engine.agent.execution import limit_of
from discovery_engine.tools.model import ToolName
from discovery_engine.view.scope import Scope

if TYPE_CHECKING:
    from discovery_engine.catalog import Catalog, Entry
    from discovery_engine.config.settings import Settings
    from discovery_engine.engine import ScopedEngine
    from discovery_engine.search.examples.book import ExampleBook
    from discovery_engine.tools.client_names import Naming
    from discovery_engine.tools.meta_tools import MetaTool
    from discovery_engine.tools.model import Tool, ToolKey
    from discovery_engine.view.addresses import AddressBook
    from discovery_engine.view.view import View


_HINT_LENGTH = 300  # characters; Claude Code reads 4,096, and a catalog has hundreds of hints


def client_definition(entry: Entry, name: str, view: View) -> JSONObject:
    """The upstream's definition with the owner's overrides, under its name towards clients.

    Texts for a model are cleaned of what no person would see. Schemas and all other members are the
    upstream's own, less the arguments that the owner pins, and less what a result that is cut
    might not match.
    """
    tool = entry.tool
    definition = {**tool.definition, "name": name, "inputSchema": tool.input_schema}
    if tool.overridden.description or isinstance(definition.get("description"), str):
        definition["description"] = clean(tool.description)
    if isinstance(title := definition.get("title"), str):
        definition["title"] = one_line(title)
    annotations = tool.annotations
    if isinstance(title := annotations.get("title"), str):
        definition["annotations"] = {**annotations, "title": one_line(title)}
    if tool.app:
        definition["_meta"] = app_meta(tool, view)
    if "outputSchema" in definition and limit_of(view.settings, tool):
        _relax_output_schema(definition, view.settings)
    return definition


def _relax_output_schema(definition: JSONObject, settings: Settings) -> None:
    """Leave what the structured content matches if it is cut, too: clients refuse any other."""
    # The plain form leaves long structured content out, which no schema allows.
    is_kept = settings.server.truncate.style == "boundary"
    relaxed = cut_schema(definition["outputSchema"]) if is_kept else None
    if relaxed is None:
        del definition["outputSchema"]
    else:
        definition["outputSchema"] = relaxed


# Clients refuse a result whose structured content does not match the output schema that they were
# shown. Of a value that is cut, texts and lists keep their beginnings, and objects lose members;
# all that remains keeps its type. So whatever demands more than that is left out: `required`,
# `minItems`, `pattern`. Names, types and descriptions stay, for those who read them.

_BROKEN = frozenset(
    {
        "const",
        "contains",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "format",
        "if",
        "maxContains",
        "minContains",
        "minItems",
        "minLength",
        "minProperties",
        "not",
        "pattern",
        "required",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords that hold for a value, and perhaps not for its beginning."""
_DYNAMIC = frozenset({"$dynamicRef", "$recursiveRef"})
_MAPS = frozenset({"$defs", "definitions", "patternProperties", "properties"})
_LISTS = frozenset({"allOf", "anyOf", "prefixItems"})
_SCHEMAS = frozenset({"additionalItems", "additionalProperties", "items"})
_TEXTS_AND_MORE = (str, list, dict)


def cut_schema(schema: JSONValue) -> JSONObject | None:
    """The schema of what is left of values that match `schema`; None if there is none."""
    try:
        relaxed = _relaxed(schema)
        is_closed = all(_leads_somewhere(relaxed, reference) for reference in _references(relaxed))
    except RecursionError:
        return None
    return relaxed if isinstance(relaxed, dict) and is_closed else None


def _relaxed(schema: JSONValue) -> JSONValue:
    if not isinstance(schema, dict):  # true and false
        return schema
    keywords: JSONObject = {}
    for key, value in schema.items():
        if key not in _BROKEN:
            keywords[key] = _KEYWORDS[key](value) if key in _KEYWORDS else value
    if isinstance(choices := keywords.pop("enum", None), list):
        # Values that cannot be cut are the same afterwards; others remain for readers.
        is_whole = not any(isinstance(choice, _TEXTS_AND_MORE) for choice in choices)
        keywords["enum" if is_whole else "examples"] = choices
    if (one_of := keywords.pop("oneOf", None)) is not None:
        # Of what is left, more than one may be true.
        if "anyOf" in keywords:
            others = keywords.get("allOf")
            also = others if isinstance(others, list) else []
            keywords["allOf"] = [*also, {"anyOf": one_of}]
        else:
            keywords["anyOf"] = one_of
    return keywords


def _one_or_many(value: JSONValue) -> JSONValue:
    return [_relaxed(part) for part in value] if isinstance(value, list) else _relaxed(value)


def _by_name(value: JSONValue) -> JSONValue:
    return {k: _relaxed(v) for k, v in value.items()} if isinstance(value, dict) else value


_KEYWORDS: Mapping[str, Callable[[JSONValue], JSONValue]] = {
    **dict.fromkeys(_MAPS, _by_name),
    **dict.fromkeys((*_LISTS, *_SCHEMAS, "oneOf"), _one_or_many),
}


def _references(schema: JSONValue) -> Iterator[JSONValue]:
    """Yield every reference of a schema, and None for one that cannot be followed."""
    match schema:
        case dict():
            for key, value in schema.items():
                if key == "$ref":
                    yield value
                elif key in _DYNAMIC:
                    yield None
                else:
                    yield from _references(value)
        case list():
            for part in schema:
                yield from _references(part)


def _leads_somewhere(schema: JSONValue, reference: JSONValue) -> bool:
    """Return whether a reference leads to a place that is still in the schema."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return False
    place = schema
    for step in reference[1:].split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, list) and name.isdecimal() and int(name) < len(place):
            place = place[int(name)]
        elif isinstance(place, dict) and name in place:
            place = place[name]
        else:
            return False
    return reference in ("#", "") or reference.startswith("#/")


class ExposedTools:
    """The tools that are visible and exposed, and the meta-tools beside them."""

    def __init__(
        self,
        engine: ScopedEngine,
        expose: Sequence[str],
        pins: Sequence[str],
        helpers: Mapping[str, MetaTool],
        naming: Naming | None = None,
    ) -> None:
        """The exposed tools of an engine.

        Args:
            engine: What shows the tools.
            expose: Patterns; all that is visible is exposed without any.
            pins: Patterns of the tools that are listed before all others.
            helpers: The meta-tools that are listed, too.
            naming: How tools are named; as the settings have it if None.
        """
        self.helpers = helpers
        self._naming = naming
        self._addresses: AddressBook | None = None
        self._hints: tuple[Catalog, ExampleBook, Mapping[ToolKey, str]] | None = None
        self.engine = engine.within(Scope.of_patterns(expose)) if expose else engine
        self._pinned = self.engine.within(Scope.of_patterns(pins)) if pins else None

    @property
    def view(self) -> View:
        return self.engine.view

    @property
    def addresses(self) -> AddressBook:
        """The names of the tools."""
        book = self.view.addresses
        if self._naming in (None, book.naming):
            return book
        if self._addresses is None or self._addresses.catalog is not book.catalog:
            # A new one lacks the table of all names, which is computed on its first use.
            self._addresses = replace(book, naming=self._naming)
        return self._addresses

    def pinned(self) -> list[Entry]:
        """The tools that are listed before all others."""
        return list(self._pinned.view.catalog.visible) if self._pinned else []

    def named(self, name: str) -> Entry | None:
        """The tool of that name towards clients, if it can be used.

        The page of an app calls tools by the names that its server gave them.
        """
        entry = self.addresses.by_client_name(name) or self._named_by_app(name)
        return entry if entry and entry.is_visible else None

    def _named_by_app(self, name: str) -> Entry | None:
        """Return the one tool with that name of its own whose server has apps."""
        catalog = self.view.catalog
        entries = [
            entry
            for entry in catalog.named(ToolName(name))
            if any(other.tool.app for other in catalog.part(entry.tool.server).entries)
        ]
        return entries[0] if len(entries) == 1 else None

    def usable(self, key: ToolKey) -> Entry | None:
        """The tool of that key, if it can be used."""
        entry = self.view.catalog.get(key.server, key.tool)
        return entry if entry and entry.is_visible else None

    def hinted_definitions(self, entries: Iterable[Entry]) -> Iterator[tuple[str, JSONObject]]:
        """Yield definitions as `definitions` does, with what Claude Code's tool search reads."""
        pinned = {entry.key for entry in self.pinned()}
        hints = self._search_hints()
        for entry in entries:
            members: JSONObject = {}
            if hint := hints.get(entry.key):
                members["anthropic/searchHint"] = hint
            if entry.key in pinned:
                members["anthropic/alwaysLoad"] = True
            for name, definition in self.definitions([entry]):
                meta = definition.get("_meta")
                members = {**members, **meta} if isinstance(meta, dict) else members
                yield name, {**definition, "_meta": members} if members else definition

    def _search_hints(self) -> Mapping[ToolKey, str]:
        """Return the search hints of all tools; they are written again when the catalog changes."""
        catalog, book = self.view.catalog, self.view.book
        if self._hints is None or self._hints[0] is not catalog or self._hints[1] != book:
            hints: dict[ToolKey, str] = {}
            for part in catalog.parts.values():
                tools = [entry.tool for entry in part.iter_visible()]
                examples = book.of_tools(tools)
                for tool in tools:
                    requests = examples.get(tool.upstream_name)
                    hints[tool.key] = search_hint(requests.texts) if requests else word_hint(tool)
            self._hints = catalog, book, hints
        return self._hints[2]

    def definitions(self, entries: Iterable[Entry]) -> Iterator[tuple[str, JSONObject]]:
        """Yield names and definitions as shown to clients; skip a tool without a client name."""
        addresses, view = self.addresses, self.view
        for entry in entries:
            if name := addresses.client_name(entry.key):
                yield name, client_definition(entry, name, view)

    def names(self, keys: Iterable[ToolKey]) -> dict[ToolKey, str]:
        """The names towards clients of those that have one."""
        addresses = self.addresses
        return {key: name for key in keys if (name := addresses.client_name(key))}

    def input_schema(self, name: str) -> JSONObject | None:
        """Return the schema of a tool's or a helper's arguments; None if nothing has that name."""
        if helper := self.helpers.get(name):
            return helper.input_schema
        entry = self.named(name)
        return entry.tool.input_schema if entry else None


def search_hint(requests: Iterable[str]) -> str:
    """Return typical requests as one line of at most 300 characters."""
    hint = ""
    for request in map(one_line, requests):
        longer = f"{hint}; {request}" if hint else request
        if len(longer) > _HINT_LENGTH:
            break
        hint = longer
    return hint


def word_hint(tool: Tool) -> str:
    """Return words by which a host may look for a tool without typical requests.

    ToolSearch compares whole words, and reads no parameters: the words of these are in the hint,
    and the singular and plural of those in the name.
    """
    # Imported here, so that `serve` starts without it: few hosts read hints.
    from discovery_engine.search.text.tokenizer import words  # noqa: PLC0415

    name = words(tool.name)
    numbers = (w.removesuffix("s") if w.endswith("s") else f"{w}s" for w in name if w.isalpha())
    parameters = (word for parameter in tool.parameters for word in words(parameter.name))
    others = dict.fromkeys(word for word in (*parameters, *numbers) if word not in name)
    return " ".join(others)[:_HINT_LENGTH]


def execution(key: ToolKey, arguments: JSONObject) -> JSONObject:
    """The arguments of `execute_tool` that a call of a tool by its name means."""
    return {"server": key.server, "tool": key.tool, "arguments": arguments}
