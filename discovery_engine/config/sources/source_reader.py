"""Reads a source: its files, containers, entries, and lists of server and tool names.

It starts no server and resolves no reference. Problems become warnings or servers with a problem,
never exceptions: one broken file must not disable the rest of a configuration.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from discovery_engine._util.json import JSONValue
from discovery_engine._util.text import named
from discovery_engine.config.files.data_folder import data_folder
from discovery_engine.config.files.inputs import observe, read_input
from discovery_engine.config.own_entry import OWN_ENTRY, is_own_entry, port_files
from discovery_engine.config.settings import InputFile, ServerSettings
from discovery_engine.config.sources.client_table import (
    ClientRow,
    FileCandidate,
    FileLocator,
    Pointer,
    Scope,
    Switch,
    load_table,
)
from discovery_engine.config.sources.entries import EntryReader, SkippedEntryError, entries_of
from discovery_engine.config.sources.formats import UnreadableError, format_of, parse
from discovery_engine.config.sources.source_result import (
    SourceResult,
    approval_rule,
    switch_rules,
    tools_by_server,
)
from discovery_engine.config.sources.variables import VariableSyntax
from discovery_engine.errors import ConfigurationError, Diagnostic, Origin
from discovery_engine.rules.rule import Rule
from discovery_engine.tools.model import ServerName

WHOLE_BLOCK = 'a whole block is {"mcpServers": {"NAME": {"command": …}}}'
"""The expected form of a file or text with servers, as the hint of an error."""

_LONGEST_NAME = 128  # characters
_NUMBERED = 120  # characters of it before a number
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._@-]+")
_UNDERSCORES = re.compile(r"__+")  # two separate a server from a tool
_BARE_MARKS = ("command", "cmd", "url", "serverUrl", "httpUrl", "baseUrl")


class _ScopedServer(Struct, frozen=True):
    server: ServerSettings
    scope: Scope


class SourceReader(Struct):
    """A reader of one source, with its results so far."""

    client: ClientRow
    places: FileLocator
    servers: dict[str, _ScopedServer] = field(default_factory=dict)
    """The servers by the client's names."""
    rules: list[Rule] = field(default_factory=list)
    inputs: dict[str, InputFile] = field(default_factory=dict)
    warnings: list[Diagnostic] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    _documents: dict[Path, JSONValue] = field(default_factory=dict)

    def result(self) -> SourceResult:
        self._apply_lists()
        return SourceResult(
            tuple(entry.server for entry in self.servers.values()),
            tuple(self.rules),
            tuple(self.inputs.values()),
            tuple(self.warnings),
            tuple(self.skipped),
        )

    def document(self, path: Path) -> JSONValue:
        """Return the content of a file; None, and a warning, if it cannot be read."""
        if path not in self._documents:
            self._documents[path] = self._read(path)
        return self._documents[path]

    def _read(self, path: Path) -> JSONValue:
        name = str(path)
        try:
            content, self.inputs[name] = read_input(name, limit=self.client.bytes)
            return parse(content, format_of(path.suffix, self.client.format))
        except UnreadableError as error:
            origin = Origin(name, error.line, error.column)
            message = f"it cannot be read: {error.reason}"
            self.warn("SOURCE_UNREADABLE", origin, message, hint=WHOLE_BLOCK)
        except OSError as error:
            self.record_absent(path)
            self.warn("SOURCE_UNREADABLE", Origin(name), f"it cannot be read: {error.strerror}")
        except ValueError:  # an impossible path
            self.warn("SOURCE_UNREADABLE", Origin(name), "it cannot be read: no such path")
        return None

    def _origin(self, path: Path) -> Origin:
        return Origin(str(path), client=self.client.label)

    def record_absent(self, path: Path) -> None:
        """Observe a missing file, so that its creation is noticed."""
        self.inputs.setdefault(str(path), observe(str(path)))

    def warn(
        self, code: str, origin: Origin, message: str, *, path: str = "", hint: str = ""
    ) -> None:
        self.warnings.append(Diagnostic(code, message, hint, subject=path, origin=origin))

    def read_file(self, place: FileCandidate) -> bool:
        """Add the servers of a file's first container; False if it has none.

        True if the file cannot be read, which is a warning already.
        """
        document = self.document(place.path)
        if document is None:
            return True
        for pointer in place.spec.containers:
            container = self._container(document, pointer)
            if container is not None:
                self._add_all(place, ".".join(pointer), container, document)
                return True
        return False

    def _container(self, document: JSONValue, pointer: Pointer) -> JSONValue:
        if pointer:
            return value_at(document, pointer, self.places.projects)
        bare = {name: entry for name, entry in _items(document) if looks_like_entry(entry)}
        return bare or None

    def _add_all(
        self, place: FileCandidate, path: str, container: JSONValue, document: JSONValue
    ) -> None:
        if not isinstance(container, dict | list):
            message = "it must be a map or a list of servers"
            self.warn("SOURCE_UNREADABLE", Origin(str(place.path)), message, path=path)
            return
        reader = self.entry_reader(place, path, document)
        for name, entry in entries_of(container, self.client.entry):
            self.add_entry(reader, place, name, entry)

    def entry_reader(
        self, place: FileCandidate, path: str, document: JSONValue = None
    ) -> EntryReader:
        client = self.client
        names = {
            "home": str(self.places.home),
            "project": str(place.project),
            "project_name": place.project.name,
            "separator": "\\" if self.places.layout == "windows" else "/",
        }
        values = {variable: value.format(**names) for variable, value in client.known.items()}
        dialect = VariableSyntax(
            client.label, client.variables, values, place.path.parent, _prompts(document)
        )
        return EntryReader(client, self._origin(place.path), path, dialect)

    def add_entry(
        self, reader: EntryReader, place: FileCandidate, name: JSONValue, entry: JSONValue
    ) -> None:
        """Add an entry, unless its name is unusable or taken by an entry of higher precedence."""
        usable = normalized_name(name) if isinstance(name, str) else None
        if not isinstance(name, str) or usable is None:
            self.skip_entry(name, "its name cannot be used")
            return
        if first := self.servers.get(name):
            server = first.server
            self.skip_entry(name, f"{server.name!r} in {server.origin.file} counts")
            return
        usable = self._unique(usable)
        try:
            read = reader.read(usable, entry, key=name)
        except SkippedEntryError as reason:
            self.skip_entry(name, str(reason))
            return
        path = f"{reader.path}.{name}".lstrip(".")
        if self._is_own_entry(read.server):
            self.warn("SOURCE_ITSELF", reader.origin, f"{OWN_ENTRY}: left out", path=path)
            return
        server = replace(read.server, is_untrusted_origin=self._is_project_file(place))
        self.servers[name] = _ScopedServer(server, place.scope)
        self.rules += read.rules
        if usable != name:
            self.warn("SOURCE_RENAMED", reader.origin, f"it is called {usable!r} here", path=path)
        for note in read.notes:
            self.warn("SOURCE_ENTRY_NOTE", reader.origin, note, path=path)

    def _is_own_entry(self, server: ServerSettings) -> bool:
        data = data_folder(None, self.places.environ)
        for path in map(str, port_files(server.transport, data)):
            self.inputs.setdefault(path, observe(path))  # changes when a gateway starts
        return is_own_entry(server.transport, data)

    def _is_project_file(self, place: FileCandidate) -> bool:
        """Return whether a file belongs to a project, and is not also the user's own."""
        own = (
            candidate.path
            for candidate in self.places.candidates(self.client)
            if candidate.scope != "project"
        )
        return place.scope == "project" and place.path not in own

    def skip_entry(self, name: JSONValue, why: str) -> None:
        self.skipped.append((str(name)[:_LONGEST_NAME], why))

    def _unique(self, name: ServerName) -> ServerName:
        """Return the name, with a number if an entry of another name is called so already."""
        taken = set(self._names().values())
        numbered = (ServerName(f"{name[:_NUMBERED]}-{number}") for number in count(2))
        return next(free for free in chain((name,), numbered) if free not in taken)

    def _apply_lists(self) -> None:
        """Apply lists of servers and tools that are outside of the entries."""
        for path, document in self._documents.items():
            origin = self._origin(path)
            for switch in self.client.switches:
                self._switch(switch, value_at(document, switch.at, self.places.projects))
            for pointer in self.client.tool_switches:
                switches = dict(_items(value_at(document, pointer)))
                self.rules += switch_rules(self._names(), switches, origin)
            for pointer in self.client.approved_tools:
                self._note_approved(value_at(document, pointer), origin)

    def _switch(self, switch: Switch, names: JSONValue) -> None:
        if not isinstance(names, list):
            return
        for name, entry in self.servers.items():
            is_meant = switch.scope in (None, entry.scope)
            if is_meant and (name in names) == (switch.means == "disabled"):
                server = replace(entry.server, enabled=False)
                self.servers[name] = replace(entry, server=server)

    def _note_approved(self, references: JSONValue, origin: Origin) -> None:
        tools = tools_by_server(references if isinstance(references, list) else ())
        for name, server in self._names().items():
            rule = approval_rule(server, tools.get(name, ()), self.client.id, origin)
            self.rules += (rule,) if rule else ()

    def _names(self) -> dict[str, ServerName]:
        return {name: entry.server.name for name, entry in self.servers.items()}


def read_entries(reading: SourceReader, places: Sequence[FileCandidate]) -> None:
    """Add the servers of every file, the highest precedence first; warn if there are none."""
    results = [reading.read_file(place) for place in places]
    if not any(results):
        places = [place for place in places if place.spec.containers]
        pointers = dict.fromkeys(chain.from_iterable(place.spec.containers for place in places))
        sought = ", ".join(".".join(pointer) for pointer in pointers if pointer)
        origin = Origin(str(places[0].path))
        message, hint = kind_of(reading.document(places[0].path))
        message = message or f"it has no servers; looked for {sought}"
        reading.warn("SOURCE_EMPTY", origin, message, hint=hint)


def kind_of(document: JSONValue) -> tuple[str, str]:
    """Return the kind of a document without servers, and the next step; both may be empty."""
    if not isinstance(document, dict):
        return "", ""
    keys = document.keys()
    if "name" in keys and {"packages", "remotes"} & keys:
        step = f"`discovery marketplace install {named(str(document['name']))}` installs it"
        return "it is a server.json, which describes a package for the MCP registry", step
    if "server" in keys and {"manifest_version", "dxt_version"} & keys:
        step = "unpack the bundle, then `discovery add NAME -- COMMAND` with its program"
        return "it is the manifest of a bundle (MCPB), which has the program", step
    if looks_like_entry(document):
        return "it is one entry without the name of a server", WHOLE_BLOCK
    return "", ""


def value_at(document: JSONValue, pointer: Pointer, projects: Iterable[Path] = ()) -> JSONValue:
    """Return the value at a pointer; `{project}` is the nearest project that is a key."""
    for step in pointer:
        if not isinstance(document, dict):
            return None
        keys = _project_keys(projects) if step == "{project}" else (step,)
        document = next((document[key] for key in keys if key in document), None)
    return document


def _project_keys(projects: Iterable[Path]) -> Iterator[str]:
    for project in projects:
        yield str(project)
        yield project.as_posix()


def _items(value: JSONValue) -> Iterable[tuple[JSONValue, JSONValue]]:
    return value.items() if isinstance(value, dict) else ()


def looks_like_entry(value: JSONValue) -> bool:
    return isinstance(value, dict) and any(isinstance(value.get(key), str) for key in _BARE_MARKS)


def normalized_name(name: str) -> ServerName | None:
    """Return a name as the configuration allows it; None if it is blank or unprintable.

    A name without plain letters or digits gets a stable one, with a hash.
    """
    if not name.strip() or not name.isprintable():
        return None
    plain = _NOT_IN_A_NAME.sub("-", unicodedata.normalize("NFKC", name))
    if plain != name:
        plain = plain.strip("-")
    plain = plain.lstrip("._@-")
    plain = _UNDERSCORES.sub("_", plain)[:_LONGEST_NAME]
    return ServerName(plain or f"server-{hashlib.sha256(name.encode()).hexdigest()[:8]}")


def _prompts(document: JSONValue) -> dict[str, str]:
    """Return the prompts of a file's inputs, by their ids."""
    inputs = document.get("inputs") if isinstance(document, dict) else None
    return {
        str(entry.get("id")): str(entry.get("description", ""))
        for entry in (inputs if isinstance(inputs, list) else ())
        if isinstance(entry, dict)
    }


# Servers in a text that an owner pasted from another client's file or a web page.

_PLACE = "the pasted text"


class PastedServer(Struct, frozen=True):
    """A server in pasted text."""

    name: str
    """The name; empty if the text has none."""
    server: ServerSettings | None
    """The server; None if the entry is unusable."""
    notes: tuple[str, ...] = ()
    """Notes on changed and omitted parts."""
    problem: str = ""
    """The reason why it is unusable; empty if it is usable."""


def read_pasted(text: str) -> tuple[PastedServer, ...]:
    """Return the servers of a text, in its order; none is started, and nothing is resolved.

    Raises:
        ConfigurationError: If the text cannot be parsed, or has no server.
    """
    try:
        document = parse(text.encode(), "any")
    except UnreadableError as error:
        place = f"line {error.line}: " if error.line else ""
        message = f"{place}{error.reason}"
        raise ConfigurationError.of_file(
            "CONFIG_UNREADABLE", _PLACE, message, WHOLE_BLOCK
        ) from error
    if isinstance(document, dict) and looks_like_entry(document):
        return (_pasted(_reader(""), ServerName(""), "", document),)
    path, container = _container(document)
    servers = tuple(_servers(path, container)) if isinstance(container, dict | list) else ()
    if not servers:
        message, hint = kind_of(document)
        raise ConfigurationError.of_file(
            "CONFIG_UNREADABLE", _PLACE, message or "has no server", hint or WHOLE_BLOCK
        )
    return servers


def _container(document: JSONValue) -> tuple[str, JSONValue]:
    """Return the path and value of the first container; the document if it may be one itself."""
    [spec] = load_table().clients["custom"].files
    for pointer in filter(None, spec.containers):
        inner = document
        for step in pointer:
            inner = inner.get(step) if isinstance(inner, dict) else None
        if isinstance(inner, dict | list):
            return ".".join(pointer), inner
    members = [*document.values()] if isinstance(document, dict) else document
    is_whole = isinstance(members, list) and all(isinstance(member, dict) for member in members)
    return "", document if is_whole else None


def _servers(
    path: str, container: dict[str, JSONValue] | list[JSONValue]
) -> Iterator[PastedServer]:
    reader = _reader(path)
    for entry_name, entry in entries_of(container, reader.client.entry):
        name = normalized_name(entry_name) if isinstance(entry_name, str) else None
        yield _pasted(reader, name or ServerName("server"), str(entry_name), entry)


def _reader(path: str) -> EntryReader:
    client = load_table().clients["custom"]
    return EntryReader(
        client, Origin(""), path, VariableSyntax(client.label, client.variables, {}, Path())
    )


def _pasted(reader: EntryReader, name: ServerName, text: str, entry: JSONValue) -> PastedServer:
    try:
        read = reader.read(name, entry, key=text)
    except SkippedEntryError as reason:
        return PastedServer(name, None, problem=str(reason))
    if problem := read.server.problem:
        return PastedServer(name, None, problem=f"{problem.message} {problem.hint}".strip())
    renamed = (f"it is called {name!r} here",) if name != text else ()
    lists = ("its lists of tools are left out; write them as tool rules",) if read.rules else ()
    return PastedServer(name, read.server, (*renamed, *read.notes, *lists))
