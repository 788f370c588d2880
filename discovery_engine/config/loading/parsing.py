"""Parses a `discovery.yaml` into settings, and reports every problem at once.

A broken entry of `servers` disables only that server. Any other mistake makes the file unusable: a
rule protects something, and must not be skipped silently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from discovery_engine._util.suggestions import closest
from discovery_engine.config.document.excerpts import Excerpts, redact_keys, redacted_path
from discovery_engine.config.document.tree import Document, Fault, Node, Path
from discovery_engine.config.document.yaml_reader import read_document
from discovery_engine.config.loading.validation import faults_from, known_keys, normalize_keys
from discovery_engine.config.model.config_file import Configuration, marketplace_settings
from discovery_engine.config.model.rules import RuleEntry
from discovery_engine.config.model.section import Section
from discovery_engine.config.model.server import (
    NamedServerEntry,
    ServerEntry,
    to_server,
    validate_name,
)
from discovery_engine.config.serve_settings import ViewSettings
from discovery_engine.config.settings import ServerSettings, Settings, Source, with_default_sandbox
from discovery_engine.config.webhook_settings import WebhookSettings
from discovery_engine.errors import ConfigurationError, Diagnostic, Origin
from discovery_engine.rules.rule import NOBODY, Rule
from discovery_engine.tools.model import ServerName

_SECTION = "discovery"
_SERVERS = "servers"
_LONGEST_PATH = 10  # steps; no key is deeper
_VIEW_RULES = {
    "rules": "rules",
    "resource_rules": "resourceRules",
    "prompt_rules": "promptRules",
}
"""The keys of a view's rules, by the fields that contain them."""
_VISIBLE_TO = "visibleTo"
_ALIKE = 0.7  # of 1: `visable_to` and `visibleFor` are this similar, and no other key is
_ENTRY_DEPTH = 2  # steps to an entry: `servers`, and its name


def parse_settings(content: bytes, *, file: str) -> Settings:
    """Return the settings of a YAML or JSON text; problems name `file`.

    Raises:
        ConfigurationError: If the text is unusable; it lists every problem.
    """
    return _Parser(read_document(content), file).settings()


class _Entry(Struct):
    """An entry of `servers` while it is parsed."""

    name: str
    path: Path
    node: Node
    model: type[Section]
    faults: list[Fault] = field(default_factory=list)


class _Parser:
    """Parses one document; `_faults` are the mistakes that make it unusable."""

    def __init__(self, document: Document, file: str) -> None:
        self._document = document
        self._file = file
        self._faults = list(document.faults)
        self._entries: dict[Path, _Entry] = {}
        self._named: dict[str, _Entry] = {}

    def settings(self) -> Settings:
        settings = Settings(path=self._file)
        if self._document.root:
            redact_keys(self._document.root, _words())
        root = None if self._document.is_broken else self._unwrapped(self._document.root)
        if root is not None:
            self._faults += normalize_keys(root, Configuration)
            members = dict(root.value) if isinstance(root.value, dict) else {}
            self._add_entries(members.pop(_SERVERS, None))
            settings = self._all_but_servers(Node(members, root.start, root.end))
        servers = [(entry, self._validated(entry)) for entry in self._entries.values()]
        problems = self._problems()
        if self._faults:
            raise ConfigurationError(_in_file_order(problems))
        read = replace(
            settings,
            servers=tuple(self._server(entry, valid, problems) for entry, valid in servers),
            warnings=_in_file_order(problems),
        )
        return with_default_sandbox(read)

    def _problems(self) -> dict[Path, list[Diagnostic]]:
        """Return all problems by the entry that they are in; under `()` those of no entry."""
        of_entries = ((e.path, fault) for e in self._entries.values() for fault in e.faults)
        faults = [*(((), fault) for fault in self._faults), *of_entries]
        excerpts = Excerpts(self._document, (fault for _, fault in faults), _words())
        problems: dict[Path, list[Diagnostic]] = {}
        for path, fault in sorted(faults, key=lambda located: located[1].at):
            problems.setdefault(path, []).append(self._problem(fault, excerpts))
        return problems

    def _problem(self, fault: Fault, excerpts: Excerpts) -> Diagnostic:
        path = redacted_path(fault.path[:_LONGEST_PATH])
        return fault.diagnostic(path, self._file, excerpts.at(fault.at))

    def _unwrapped(self, root: Node | None) -> Node | None:
        """Return the configuration, which is the whole file or under its key `discovery`."""
        if root is None or root.is_null:
            return None
        section = root.child(_SECTION)
        if section is not None:
            self._refuse_neighbours(root)
            self._faults = [_inside_section(fault) for fault in self._faults]
            return self._unwrapped(section)
        if not isinstance(root.value, dict):
            message = "must be a mapping of keys such as 'servers' and 'toolRules'"
            self._faults.append(Fault("CONFIG_INVALID_VALUE", (), root.name_at, message))
        return root

    def _refuse_neighbours(self, root: Node) -> None:
        for key, node in root.children():
            if key not in (_SECTION, "$schema"):
                message = f"{key!r} stands beside {_SECTION!r}, where nothing is read"
                hint = f"move it below {_SECTION!r}"
                self._faults.append(
                    Fault("CONFIG_UNKNOWN_KEY", (key,), node.name_at, message, hint, node)
                )

    def _add_entries(self, servers: Node | None) -> None:
        if servers is None or servers.is_null:
            return
        if isinstance(servers.value, str):
            message = "must be a mapping of names to servers, or a list of servers"
            self._faults.append(
                Fault("CONFIG_INVALID_VALUE", (_SERVERS,), servers.name_at, message)
            )
        for key, node in servers.children():
            if isinstance(key, str):
                self._add_entry(_Entry(key, (_SERVERS, key), node, ServerEntry))
            else:
                self._add_item((_SERVERS, key), node)
        self._assign_faults()

    def _add_item(self, path: Path, node: Node) -> None:
        """Add an entry of a list, which contains its name."""
        name = node.child("name")
        if name is None or name.is_null or not isinstance(name.value, str):
            message, hint = "a server in a list needs a name", "begin it with '- name: …'"
            self._faults.append(Fault("CONFIG_MISSING_KEY", path, node.start, message, hint))
            return
        if first := self._named.get(name.value):
            line = first.node.start.line
            message = f"a second server {first.name!r}; the first is on line {line}"
            self._faults.append(
                Fault("CONFIG_DUPLICATE", path, name.start, message, "rename one of them")
            )
        self._add_entry(_Entry(str(name.value), path, node, NamedServerEntry))

    def _add_entry(self, entry: _Entry) -> None:
        self._entries[entry.path] = self._named[entry.name] = entry
        entry.faults += _faults_of_name(entry)
        entry.faults += normalize_keys(entry.node, entry.model, entry.path)

    def _assign_faults(self) -> None:
        """Move faults in the text of an entry to that entry."""
        others: list[Fault] = []
        for fault in self._faults:
            entry = self._entries.get(fault.path[:2]) if len(fault.path) > _ENTRY_DEPTH else None
            (entry.faults if entry else others).append(fault)
        self._faults = others

    def _validated(self, entry: _Entry) -> Section | None:
        try:
            return entry.model.model_validate(entry.node.plain())
        except ValidationError as error:
            entry.faults += faults_from(error, entry.node, entry.path, reported=entry.faults)
            return None

    def _server(
        self, entry: _Entry, valid: Section | None, problems: Mapping[Path, list[Diagnostic]]
    ) -> ServerSettings:
        at = entry.node.name_at
        origin = Origin(self._file, at.line, at.column)
        if valid and entry.path not in problems:
            return to_server(valid, entry.name, origin)
        visible_to = (NOBODY,) if _is_reserved(entry) else ()
        problem = problems[entry.path][0]
        name = ServerName(entry.name)
        return ServerSettings(name, None, visible_to=visible_to, origin=origin, problem=problem)

    def _all_but_servers(self, root: Node) -> Settings:
        try:
            configuration = Configuration.model_validate(root.plain())
        except ValidationError as error:
            self._faults += faults_from(error, root, reported=self._faults)
            return Settings(path=self._file)
        settings: Settings = configuration.to_settings(
            Settings,
            path=self._file,
            servers=(),
            server_rules=self._rules(configuration.server_rules, root.child("serverRules")),
            tool_rules=self._rules(configuration.tool_rules, root.child("toolRules")),
            resource_rules=self._rules(configuration.resource_rules, root.child("resourceRules")),
            prompt_rules=self._rules(configuration.prompt_rules, root.child("promptRules")),
            overrides=tuple(
                entry.to_override(origin)
                for entry, origin in zip(
                    configuration.overrides, self._origins(root.child("overrides")), strict=True
                )
            ),
            sources=tuple(source.to_settings(Source) for source in configuration.sources),
            marketplace=marketplace_settings(configuration.marketplace),
            webhooks=tuple(
                entry.to_settings(WebhookSettings, name=name)
                for name, entry in configuration.webhooks.items()
            ),
            views=tuple(self._views(configuration.views, root.child("views"))),
        )
        return settings

    def _views(self, entries: Mapping[str, Section], node: Node | None) -> Iterator[ViewSettings]:
        for name, entry in entries.items():
            entry_node = node.child(name) if node else None
            rules = {
                field: self._rules(getattr(entry, field), entry_node and entry_node.child(key))
                for field, key in _VIEW_RULES.items()
            }
            yield entry.to_settings(ViewSettings, name=name, **rules)

    def _rules(self, entries: Sequence[RuleEntry], node: Node | None) -> tuple[Rule, ...]:
        origins = self._origins(node)
        return tuple(entry.to_rule(origin) for entry, origin in zip(entries, origins, strict=True))

    def _origins(self, node: Node | None) -> list[Origin]:
        """Return the place of each item of a list."""
        places = [child.start for _, child in node.children()] if node else []
        return [Origin(self._file, at.line, at.column) for at in places]


def _is_reserved(entry: _Entry) -> bool:
    """Return whether a broken entry is reserved, even if it misspells `visibleTo`."""
    if entry.node.child(_VISIBLE_TO):
        return True
    wrong = [str(fault.path[-1]) for fault in entry.faults if len(fault.path) > _ENTRY_DEPTH]
    return any(closest(key, (_VISIBLE_TO,), least=_ALIKE) for key in wrong)


def _in_file_order(problems: Mapping[Path, list[Diagnostic]]) -> tuple[Diagnostic, ...]:
    all_problems = chain.from_iterable(problems.values())
    return tuple(
        sorted(all_problems, key=lambda problem: (problem.origin.line, problem.origin.column))
    )


@cache
def _words() -> frozenset[str]:
    return known_keys(Configuration) | known_keys(NamedServerEntry) | {_SECTION}


def _inside_section(fault: Fault) -> Fault:
    return replace(fault, path=fault.path[1:]) if fault.path[:1] == (_SECTION,) else fault


def _faults_of_name(entry: _Entry) -> Iterator[Fault]:
    try:
        validate_name(entry.name)
    except PydanticCustomError as error:
        named = entry.node.child("name") if entry.model is NamedServerEntry else None
        at = named.start if named else entry.node.name_at
        context = error.context or {}
        message, hint = context["message"], context["hint"]
        yield Fault("CONFIG_INVALID_VALUE", entry.path, at, message, hint)
