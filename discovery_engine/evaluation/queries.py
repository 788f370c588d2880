"""The owner's queries: what an agent may ask, and which tools would be right.

    queries:
      - query: what time is it in Tokyo
        tools: [time:get_current_time]
      - query: order a pizza
        none: true

All problems of a file are reported together, each with its position: as YAML, as a list of
queries, and against the catalog.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Self

from msgspec import Struct, field
from pydantic import AfterValidator, Field, ValidationError, model_validator

from discovery_engine.config.document.excerpts import Excerpts
from discovery_engine.config.document.tree import Document, Fault, Node, Path, Position
from discovery_engine.config.document.yaml_reader import read_document
from discovery_engine.config.loading.validation import faults_from, known_keys, normalize_keys
from discovery_engine.config.model.field_types import Flag, Word, Words, custom_error
from discovery_engine.config.model.section import Section
from discovery_engine.errors import (
    ConfigurationError,
    Diagnostic,
    DiscoveryError,
    InputTooLongError,
    NotFoundError,
    ToolNotFoundError,
)
from discovery_engine.tools.limits import require_query
from discovery_engine.tools.model import ServerName, ToolKey
from discovery_engine.view.view import View

_EMPTY_HINT = "write 'queries:' with a list below it; `discovery tune eval --suggest` drafts one"


class Query(Struct, frozen=True):
    id: str
    """Identifies it among the others, from one run to the next."""
    text: str
    tools: tuple[ToolKey, ...] = ()
    """Each of them is right; without any, the right answer is that nothing fits."""
    server: ServerName | None = None
    """The agent asks for this server's tools only."""


class QuerySet(Struct, frozen=True):
    queries: tuple[Query, ...]
    skipped: tuple[str, ...] = ()
    """The ids of those that cannot be asked, as what they name is not in the catalog."""


def _require_query(text: str) -> str:
    try:
        require_query(text)
    except InputTooLongError as error:
        raise custom_error(error.message, hint=error.hint) from error
    return text


class QueryEntry(Section):
    query: Annotated[Word, AfterValidator(_require_query)] = Field(
        description="What an agent asks."
    )
    tools: Words = Field(default=[], description="The tools that are right, as `server:tool`.")
    none: Flag = Field(default=False, description="No tool is right: nothing should be found.")
    server: Word = Field(default="", description="Ask for this server's tools only.")
    id: Word = Field(default="", description="A name that stays when the words change.")

    @model_validator(mode="after")
    def _says_what_is_right(self) -> Self:
        if self.tools and self.none:
            raise custom_error("has both `tools` and `none`", hint="keep one of the two")
        if not self.tools and not self.none:
            hint = "give it 'tools: [server:tool]', or 'none: true'"
            raise custom_error("has neither `tools` nor `none`", hint=hint)
        return self

    @property
    def name(self) -> str:
        """The id, or what is asked and of which server."""
        return self.id or (f"{self.query} [{self.server}]" if self.server else self.query)


def _some(entries: list[QueryEntry]) -> list[QueryEntry]:
    if not entries:
        raise custom_error("has no query", hint=_EMPTY_HINT)
    return entries


class QueryCase(Struct, frozen=True):
    """A query as its owner wrote it, whether its tools are there or not."""

    id: str
    query: str
    tools: tuple[str, ...]
    """Each of them is right; without any, the right answer is that nothing fits."""
    server: str
    """The agent asks for this server's tools only; empty for all."""
    line: int


class QueryFile(Section):
    queries: Annotated[list[QueryEntry], AfterValidator(_some)] = Field(
        description="What is asked."
    )


def read_queries(content: bytes, *, file: str, view: View, allow_missing: bool = False) -> QuerySet:
    """The queries that a YAML or JSON text holds; `file` is named in problems.

    Args:
        content: The text.
        file: What to call it.
        view: The catalog that its tools and servers must be in.
        allow_missing: Leave out tools and servers that no agent can find, rather than refuse
            them; a query that is left without any is skipped.

    Raises:
        ConfigurationError: If it cannot be used; it lists everything that is wrong.
    """
    reading = _QueryReader(read_document(content), file, view=view)
    query_set = reading.read()
    faults = reading.faults if allow_missing else [*reading.faults, *reading.missing]
    if faults:
        raise ConfigurationError(list(reading.problems(faults)))
    return query_set


def read_cases(content: bytes, *, file: str) -> tuple[QueryCase, ...]:
    """The queries as they are written; none of an empty text.

    Raises:
        ConfigurationError: If it cannot be used; it lists everything that is wrong.
    """
    reading = _CaseReader(read_document(content), file)
    root = reading.document.root
    if not reading.faults and (root is None or root.is_null or _is_empty_list(root)):
        return ()
    entries = reading.entries()
    if reading.faults:
        raise ConfigurationError(list(reading.problems(reading.faults)))
    return tuple(
        QueryCase(entry.name, entry.query, tuple(entry.tools), entry.server, node.start.line)
        for _, node, entry in entries
    )


def _is_empty_list(root: Node) -> bool:
    """Return whether there is a list of queries that is empty."""
    queries = root.child("queries")
    return queries is not None and (queries.is_null or queries.value == [])


class _CaseReader(Struct):
    document: Document
    file: str
    faults: list[Fault] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.faults += self.document.faults

    def entries(self) -> list[tuple[Path, Node, QueryEntry]]:
        entries = self._entries()
        self._refuse_doubles(entries)
        return entries

    def problems(self, faults: Sequence[Fault]) -> Iterator[Diagnostic]:
        excerpts = Excerpts(self.document, faults, known_keys(QueryFile))
        for fault in sorted(faults, key=lambda fault: fault.at):
            path = ".".join(map(str, fault.path))
            yield fault.diagnostic(path, self.file, excerpts.at(fault.at))

    def _entries(self) -> list[tuple[Path, Node, QueryEntry]]:
        root = self.document.root
        if self.document.is_broken:
            return []
        if root is None or root.is_null:
            self.faults.append(
                Fault("QUERY_FILE_EMPTY", (), Position(), "has no query", _EMPTY_HINT)
            )
            return []
        self.faults += normalize_keys(root, QueryFile)
        try:
            query_file = QueryFile.model_validate(root.plain())
        except ValidationError as error:
            self.faults += faults_from(error, root, reported=self.faults)
            return []
        nodes = _child(root, "queries").children()
        return [
            (("queries", place), node, entry)
            for (place, node), entry in zip(nodes, query_file.queries, strict=True)
        ]

    def _refuse_doubles(self, entries: Iterable[tuple[Path, Node, QueryEntry]]) -> None:
        first: dict[str, Node] = {}
        for path, node, entry in entries:
            if (earlier := first.setdefault(entry.name, node)) is not node:
                line = earlier.start.line
                message = f"a second query {entry.name!r}; the first is on line {line}"
                hint = "remove one, or give each an 'id'"
                self.faults.append(Fault("CONFIG_DUPLICATE", path, node.start, message, hint))


class _QueryReader(_CaseReader, kw_only=True):
    view: View
    missing: list[Fault] = field(default_factory=list)
    """Faults for the tools and servers that are named and that no agent can find."""

    def read(self) -> QuerySet:
        queries = [
            (entry, self._query(place, node, entry)) for place, node, entry in self.entries()
        ]
        return QuerySet(
            tuple(query for _, query in queries if query),
            tuple(entry.name for entry, query in queries if query is None),
        )

    def _query(self, path: Path, node: Node, entry: QueryEntry) -> Query | None:
        """The query against the catalog; None if nothing is left of it."""
        server = None
        if entry.server:
            try:
                server = self.view.server(entry.server).name
            except NotFoundError as error:
                place = _child(node, "server")
                self.missing.append(_fault((*path, "server"), place, error))
                return None
        tools = tuple(self._tools(path, node, entry, server))
        if entry.tools and not tools:
            return None
        return Query(entry.name, entry.query, tools, server)

    def _tools(
        self, path: Path, node: Node, entry: QueryEntry, server: ServerName | None
    ) -> Iterator[ToolKey]:
        places = _child(node, "tools") if entry.tools else node
        seen: set[ToolKey] = set()
        for index, name in enumerate(entry.tools):
            place = places.child(index) or places  # one word stands for a list of one
            try:
                key = self.view.details(server, name).key
                if server and key.server != server:  # a name may have a server of its own
                    raise ToolNotFoundError(server, name)
            except DiscoveryError as error:
                self.missing.append(self._missing_tool((*path, "tools", index), place, error))
                continue
            if key not in seen:
                seen.add(key)
                yield key

    def _missing_tool(self, path: Path, place: Node, error: DiscoveryError) -> Fault:
        if isinstance(error, ToolNotFoundError) and error.server:
            server = ServerName(error.server)
            if not self.view.is_known(server):
                message = f"server {server!r} could not be listed, so its tools are not known"
                hint = (
                    f"`discovery refresh {server}` shows why; --allow-missing continues without it"
                )
                return Fault("QUERY_UNANSWERABLE", path, place.start, message, hint)
        return _fault(path, place, error)


def _fault(path: Path, place: Node, error: DiscoveryError) -> Fault:
    """Return the fault for a name that cannot be found, with what was meant."""
    if not isinstance(error, NotFoundError):
        hint = "no agent can find it; enable it"
        return Fault("QUERY_UNANSWERABLE", path, place.start, error.message, hint)
    server = error.server if isinstance(error, ToolNotFoundError) else None
    names = [repr(f"{server}:{name}" if server else name) for name in error.nearest]
    hint = f"did you mean {' or '.join(names)}?" if names else "`discovery list --tools` names all"
    return Fault("QUERY_UNANSWERABLE", path, place.start, error.message, hint)


def _child(node: Node, key: str) -> Node:
    """The member that a model has found to be there."""
    child = node.child(key)
    if child is None:
        raise AssertionError(f"{key!r} was read and is not there")
    return child
