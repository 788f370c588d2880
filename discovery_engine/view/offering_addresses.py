"""Resources, templates and prompts of a view: listed, searched, and found by their addresses.

    file:///readme                                        a URI that one server alone has
    discovery://servers/docs/resources/file%3A%2F%2F%2Freadme   the same, named with its server
    review                                                a prompt that one server alone has
    docs:review                                           the same, named with its server

A URI that is not a listed resource belongs to a template, if only one server has a template that it
matches. An unknown address is an error that suggests the nearest visible ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from msgspec import Struct

from discovery_engine._util.suggestions import nearest
from discovery_engine.catalog import Catalog, Entry, OfferingEntry, ServerPart
from discovery_engine.errors import (
    PromptAmbiguousError,
    PromptDisabledError,
    PromptNotFoundError,
    ResourceAmbiguousError,
    ResourceDisabledError,
    ResourceNotFoundError,
    concerning,
)
from discovery_engine.rpc.protocol import is_uri
from discovery_engine.rules.rule import Rule, Verdict, public_decider
from discovery_engine.tools import limits
from discovery_engine.tools.limits import require_prompt_name, require_uri
from discovery_engine.tools.model import ServerName, Tool, ToolKey, ToolName, canonical_json
from discovery_engine.tools.offering import Offering, OfferingKind
from discovery_engine.tools.skills import root_of
from discovery_engine.view.addresses import AddressBook
from discovery_engine.view.notices import Notice, verdict_place
from discovery_engine.view.search_answers import OfferingHit, QueryRunner, SearchKind
from discovery_engine.view.uris import UriRules, keys, matches, without_query

if TYPE_CHECKING:
    from discovery_engine.config.settings import SearchSettings, Settings
    from discovery_engine.search.searcher import Searcher
    from discovery_engine.view.scoped_catalog import UriGuard
    from discovery_engine.view.search_answers import AnswerNotices
    from discovery_engine.view.status import ConfiguredServers

OWN_SCHEME = "discovery:"
OWN_PROMPT = "mcp-discovery-usage-guide"
"""The prompt of the gateway; a server's prompt of that name is addressed as `SERVER:NAME`."""

_REMEMBERED = 1_000  # URIs
_REMEMBERED_LENGTH = 500  # characters of a URI
_READABLE = 2000  # definitions whose names are read for a suggestion, in some 10 ms
_SERVERS = "discovery://servers/"
_RESOURCES = "/resources/"


class ResourceTarget(Struct, frozen=True):
    """The resource or template that a URI leads to, visible or not."""

    uri: str
    """The URI as the server has it."""
    entry: OfferingEntry
    """The resource, or the template that the URI matches, with the verdict on that URI."""

    @property
    def server(self) -> ServerName:
        return self.entry.offering.server


class OfferingBook(Struct, frozen=True, dict=True):
    catalog: Catalog
    addresses: AddressBook
    resource_rules: Sequence[Rule]
    place: Callable[[OfferingEntry], str]
    """Describes what hides a resource, template or prompt, for the owner."""
    settings: Settings
    guards: tuple[UriGuard, ...] = ()
    """Guards that keep templates from reaching resources outside of this catalog."""

    def visible(
        self, kind: OfferingKind, server: ServerName | None = None
    ) -> tuple[OfferingEntry, ...]:
        """Return the entries that an agent may see, in the order of servers and identifiers."""
        entries = self._visible[kind]
        if server is None:
            return entries
        return tuple(entry for entry in entries if entry.offering.server == server)

    def address(self, offering: Offering) -> str:
        """Return the address for callers: the identifier, with the server if it is ambiguous."""
        identifier, server = offering.identifier, offering.server
        if offering.kind is OfferingKind.PROMPT:
            is_taken = identifier == OWN_PROMPT or self._split_prompt(identifier) is not None
            return f"{server}:{identifier}" if is_taken or self._is_shared(offering) else identifier
        if offering.kind is OfferingKind.SKILL:
            # Always with its server: what a client trusts must not become another server's.
            return skill_address(server, identifier)
        is_template = offering.kind is OfferingKind.TEMPLATE
        is_taken = identifier.casefold().startswith(OWN_SCHEME) or self._is_shared(offering)
        if not is_taken and (is_template or is_uri(identifier)):
            return identifier
        return _with_server(server, identifier, is_template=is_template)

    def resource(self, server: str | None, uri: str) -> ResourceTarget:
        """Return the resource or template that a URI leads to, visible or not.

        Raises:
            InputTooLongError: If the URI is too long.
            ServerNotFoundError: If the server is not configured.
            ResourceNotFoundError: If there is none; the error suggests the nearest addresses.
            ResourceAmbiguousError: If several servers may have it.
        """
        require_uri(uri)
        # Most URIs are read repeatedly. Unknown addresses are not cached.
        if cached_target := self._targets.get((server, uri)):
            return cached_target
        target = self._target(server, uri)
        if len(uri) <= _REMEMBERED_LENGTH:
            if len(self._targets) == _REMEMBERED:
                self._targets.clear()
            self._targets[server, uri] = target
        return target

    def _target(self, server: str | None, uri: str) -> ResourceTarget:
        if server is None:
            server, uri = _split_resource(uri)
            require_uri(uri)
        of = None if server is None else self.addresses.server(server)
        resources = self._named[OfferingKind.RESOURCE].get(uri, ())
        candidates = (*resources, *self._skill_files.get(uri, ()))
        listed = list(self._in_skills(uri, [e for e in candidates if _is_of(e, of)]))
        if meant := self._one(uri, [entry for entry in listed if entry.is_visible]):
            return ResourceTarget(uri, meant)
        hiding = {entry.offering.server for entry in listed}
        templates = [e for e in self._expanded(uri, of) if e.offering.server not in hiding]
        expanded = list(self._in_skills(uri, templates))
        if meant := self._one(uri, [entry for entry in expanded if entry.is_visible]):
            return ResourceTarget(uri, meant)
        if hidden := [*listed, *expanded]:
            return ResourceTarget(uri, hidden[0])
        raise ResourceNotFoundError(uri, self._near(uri, of, OfferingKind.RESOURCE), server=of)

    def skill(self, server: str | None, uri: str) -> OfferingEntry | None:
        """Return the visible skill with that URI of its `SKILL.md`; None if there is not one."""
        if server is None:
            server, uri = _split_resource(uri)
        entries = [
            entry
            for entry in self._named[OfferingKind.SKILL].get(uri, ())
            if entry.is_visible and server in (None, entry.offering.server)
        ]
        return entries[0] if len(entries) == 1 else None

    def skill_of(self, target: ResourceTarget) -> Offering | None:
        """Return the skill that has a resource as one of its files; None if none has."""
        skill = self._nearest_skill(target.uri, target.server)
        return skill.offering if skill and target.uri in skill.offering.files else None

    def _in_skills(self, uri: str, entries: Iterable[OfferingEntry]) -> Iterator[OfferingEntry]:
        """Yield the entries that a URI may mean, each with the verdict on the skill it lies in.

        What lies in the folder of a skill is one of its files, or a listed resource.
        """
        for entry in entries:
            offering, skill = entry.offering, self._nearest_skill(uri, entry.offering.server)
            if skill and not skill.is_visible:
                yield OfferingEntry(offering, skill.verdict)
            elif offering.kind is OfferingKind.SKILL:
                yield OfferingEntry(offering, self._verdict(uri, entry))
            elif (
                offering.kind is OfferingKind.RESOURCE
                or skill is None
                or uri in skill.offering.files
            ):
                yield entry

    def _nearest_skill(self, uri: str, server: ServerName) -> OfferingEntry | None:
        """Return the innermost skill of a server that any spelling of a URI lies in."""
        skills = self._skills.get(server, ())
        if not skills:
            return None
        spelled = [uri, *keys(uri), *keys(without_query(uri))]
        return next(
            (
                entry
                for root, roots, entry in skills
                if uri.startswith(root) or any(key.startswith(roots) for key in spelled)
            ),
            None,
        )

    def _is_of_hidden_skill(self, offering: Offering) -> bool:
        """Return whether a resource is a file of a skill that is hidden."""
        if offering.kind is not OfferingKind.RESOURCE or offering.server not in self._skills:
            return False
        skill = self._nearest_skill(offering.identifier, offering.server)
        return skill is not None and not skill.is_visible

    @cached_property
    def _skills(self) -> Mapping[ServerName, Sequence[tuple[str, tuple[str, ...], OfferingEntry]]]:
        """The folders of all skills of each server, the innermost first, in all spellings."""
        skills: dict[ServerName, list[tuple[str, tuple[str, ...], OfferingEntry]]] = {}
        for entries in self._named[OfferingKind.SKILL].values():
            for entry in entries:
                root = root_of(entry.offering.identifier)
                spelled = tuple(f"{key}/" for key in keys(root))
                skills.setdefault(entry.offering.server, []).append((root, spelled, entry))
        for of_server in skills.values():
            of_server.sort(key=lambda skill: -len(skill[0]))
        return skills

    @cached_property
    def _skill_files(self) -> Mapping[str, list[OfferingEntry]]:
        """The skills that have a file, by its URI."""
        files: dict[str, list[OfferingEntry]] = {}
        for of_server in self._skills.values():
            for _, _, entry in of_server:
                for uri in entry.offering.files:
                    if self._is_admitted(uri, entry.offering):
                        files.setdefault(uri, []).append(entry)
        return files

    def prompt(self, server: str | None, name: str) -> OfferingEntry:
        """Return the prompt of that name, visible or not; `name` may be `SERVER:NAME`.

        Raises:
            InputTooLongError: If the name is too long.
            ServerNotFoundError: If the server is not configured.
            PromptNotFoundError: If there is none; the error suggests the nearest names.
            PromptAmbiguousError: If several servers have that prompt.
        """
        require_prompt_name(name)
        full_name = name
        if server is None and (split := self._split_prompt(name)):
            server, name = split
        of = None if server is None else self.addresses.server(server)
        entries = [e for e in self._named[OfferingKind.PROMPT].get(name, ()) if _is_of(e, of)]
        meant = [entry for entry in entries if entry.is_visible] or entries[:1]
        if len(meant) > 1:
            raise PromptAmbiguousError(name, [f"{entry.offering.server}:{name}" for entry in meant])
        if meant:
            return meant[0]
        raise PromptNotFoundError(full_name, self._near(name, of, OfferingKind.PROMPT), server=of)

    def template(self, server: str | None, address: str) -> OfferingEntry | None:
        """Return the template of that address, visible or not; None unless there is exactly one."""
        if server is None:
            server, address = _split_resource(address)
        of = None if server is None else self.addresses.server(server)
        entries = [e for e in self._named[OfferingKind.TEMPLATE].get(address, ()) if _is_of(e, of)]
        meant = [entry for entry in entries if entry.is_visible] or entries
        return meant[0] if len(meant) == 1 else None

    def shows_part(self, uri: str, entry: OfferingEntry) -> bool:
        """Return whether an agent may see `uri`, which is a part of the visible `entry`."""
        return self._verdict(uri, entry).enabled and self._is_admitted(uri, entry.offering)

    def _one(self, uri: str, entries: Sequence[OfferingEntry]) -> OfferingEntry | None:
        """Return the first entry; None if there are none.

        Raises:
            ResourceAmbiguousError: If they are of several servers.
        """
        servers = dict.fromkeys(entry.offering.server for entry in entries)
        if len(servers) > 1:
            addresses = [_with_server(server, uri, is_template=False) for server in servers]
            raise ResourceAmbiguousError(uri, addresses)
        return entries[0] if entries else None

    def _expanded(self, uri: str, of: ServerName | None) -> Iterator[OfferingEntry]:
        """Yield the templates that a URI matches, each with the verdict on that URI."""
        for entries in self._named[OfferingKind.TEMPLATE].values():
            for entry in entries:
                is_made_of_it = _is_of(entry, of) and matches(entry.offering.identifier, uri)
                if is_made_of_it and self._is_admitted(uri, entry.offering):
                    yield OfferingEntry(entry.offering, self._verdict(uri, entry))

    def _is_admitted(self, uri: str, of: Offering) -> bool:
        return all(guard.admits(uri, of) for guard in self.guards)

    def _verdict(self, uri: str, template: OfferingEntry) -> Verdict:
        """Return the verdict on a URI: its template's, unless any spelling of the URI is hidden."""
        if not template.is_visible:
            return template.verdict
        if hidden := self._hidden(template.offering.server):
            for key in keys(uri) | keys(without_query(uri)):
                if key in hidden:
                    return hidden[key]
        server = self.catalog.part(template.offering.server).verdict
        return self._uri_rules.denial(uri, template.offering, server) or template.verdict

    def _hidden(self, server: ServerName) -> Mapping[str, Verdict]:
        """Return the verdicts on a server's hidden resources, by every spelling of their URIs."""
        verdicts = self._hidden_by_server.get(server)
        if verdicts is None:
            hidden = (e for e in self.catalog.part(server).resources if not e.is_visible)
            verdicts = self._hidden_by_server[server] = {
                key: entry.verdict for entry in hidden for key in keys(entry.offering.identifier)
            }
        return verdicts

    def _near(self, word: str, of: ServerName | None, kind: OfferingKind) -> list[str]:
        visible = [entry.offering for entry in self.visible(kind, of)]
        addresses = {offering.identifier: self.address(offering) for offering in visible}
        if kind is OfferingKind.RESOURCE and len(visible) <= _READABLE:
            # Lists show the name beside the URI, and a person types the shorter one.
            addresses = {offering.name: self.address(offering) for offering in visible} | addresses
        return list(dict.fromkeys(addresses[name] for name in nearest(word, addresses)))

    def _is_shared(self, offering: Offering) -> bool:
        """Return whether another server has a visible offering with the same identifier."""
        named = self._named[offering.kind].get(offering.identifier, ())
        return any(entry.is_visible and entry.offering.server != offering.server for entry in named)

    def _split_prompt(self, name: str) -> tuple[ServerName, str] | None:
        """Split `SERVER:NAME`; None if the name does not begin with a server."""
        server, colon, prompt = name.partition(":")
        is_server = bool(colon) and server in self.addresses.servers
        return (ServerName(server), prompt) if is_server and prompt else None

    @cached_property
    def index(self) -> OfferingIndex:
        """The search index of the visible offerings, built at the first search."""
        entries = (entry for kind in OfferingKind for entry in self._visible[kind])
        return OfferingIndex.of(entries, self.settings.search, self.settings.descriptions)

    @cached_property
    def _visible(self) -> Mapping[OfferingKind, tuple[OfferingEntry, ...]]:
        visible_entries: dict[OfferingKind, list[OfferingEntry]] = {
            kind: [] for kind in OfferingKind
        }
        for entry in _all(self.catalog):
            if entry.is_visible and not self._is_of_hidden_skill(entry.offering):
                visible_entries[entry.offering.kind].append(entry)
        return {kind: tuple(entries) for kind, entries in visible_entries.items()}

    @cached_property
    def _named(self) -> Mapping[OfferingKind, Mapping[str, list[OfferingEntry]]]:
        """Entries by kind and identifier, in the order of servers."""
        named: dict[OfferingKind, dict[str, list[OfferingEntry]]] = {k: {} for k in OfferingKind}
        for entry in _all(self.catalog):
            named[entry.offering.kind].setdefault(entry.offering.identifier, []).append(entry)
        return named

    @cached_property
    def _hidden_by_server(self) -> dict[ServerName, Mapping[str, Verdict]]:
        return {}

    @cached_property
    def _targets(self) -> dict[tuple[str | None, str], ResourceTarget]:
        """A cache of targets, by server and URI as callers write them."""
        return {}

    @cached_property
    def _uri_rules(self) -> UriRules:
        return UriRules(self.resource_rules)


def skill_address(server: ServerName, uri: str) -> str:
    """Return the address of a file of a skill; its last segments are those of the URI."""
    return _with_server(server, uri, is_template=True)


def is_own_uri(uri: str) -> bool:
    """Return whether a URI is that of a document of the gateway, not of a server."""
    return uri.casefold().startswith(OWN_SCHEME) and _split_resource(uri)[0] is None


def _all(catalog: Catalog) -> Iterable[OfferingEntry]:
    return (entry for part in catalog.parts.values() for entry in part.offerings)


def _is_of(entry: OfferingEntry, server: ServerName | None) -> bool:
    return server is None or entry.offering.server == server


def _with_server(server: ServerName, identifier: str, *, is_template: bool) -> str:
    # A template is not encoded: the values that clients fill in are encoded already.
    tail = identifier if is_template else quote(identifier, safe="")
    return f"{_SERVERS}{quote(server, safe='')}{_RESOURCES}{tail}"


def _split_resource(address: str) -> tuple[str | None, str]:
    """Split an address into server and URI; the server is None if the address names none."""
    if not address.startswith(_SERVERS):
        return None, address
    server, separator, tail = address.removeprefix(_SERVERS).partition(_RESOURCES)
    if not separator:
        return None, address
    # A URI with a colon is not encoded: it is the expansion of a template.
    return unquote(server), tail if ":" in tail else unquote(tail)


# Search over resources, resource templates and prompts, by the ranking of tools.
#
# They have an index of their own, built at the first search for them. So they change neither the
# results of a search for tools nor its speed.


class OfferingIndex(Struct, frozen=True):
    """The visible resources, templates and prompts, as documents of the search."""

    searcher: Searcher
    entries: Mapping[ToolKey, OfferingEntry]

    @classmethod
    def of(
        cls,
        entries: Iterable[OfferingEntry],
        settings: SearchSettings,
        descriptions: Mapping[ServerName, str],
    ) -> OfferingIndex:
        """Build the index of `entries`; takes some 0.3 ms for each."""
        # Imported here: most reads do not search.
        from discovery_engine.search.searcher import build_searcher  # noqa: PLC0415

        documents = dict(_documents(entries))
        by_server: dict[ServerName, list[Entry]] = {}
        for key, (tool, entry) in sorted(documents.items()):
            by_server.setdefault(key.server, []).append(Entry(tool, entry.verdict))
        parts = [ServerPart(server, tuple(tools)) for server, tools in by_server.items()]
        searcher = build_searcher(Catalog.of(parts), settings, descriptions=descriptions)
        return cls(searcher, {key: entry for key, (_, entry) in documents.items()})

    def search(
        self, query: str, accepts: Callable[[OfferingEntry], bool], *, limit: int, least: float
    ) -> list[tuple[OfferingEntry, float]]:
        """Return the accepted entries that fit, with their relevance, the best first.

        Empty if the confidence that one of the best fits is below `least`.
        """
        asker = QueryRunner(
            self.searcher.analyze(query), self.searcher, None, limit=limit, least=least, usage={}
        )
        hits = asker.answer(lambda entry: accepts(self.entries[entry.key])).hits
        return [(self.entries[hit.entry.key], hit.relevance) for hit in hits]


def _search_kind(offering: Offering) -> SearchKind:
    return "skill" if offering.kind is OfferingKind.SKILL else offering.subject


def _documents(
    entries: Iterable[OfferingEntry],
) -> Iterator[tuple[ToolKey, tuple[Tool, OfferingEntry]]]:
    """Yield each entry as a tool to index; a name that is taken has the decision key appended."""
    taken: set[ToolKey] = set()
    for entry in entries:
        offering = entry.offering
        key = ToolKey(offering.server, ToolName(offering.name))
        if key in taken:
            key = ToolKey(offering.server, ToolName(f"{offering.name} {offering.decision_key}"))
        taken.add(key)
        yield key, (_document(offering, key), entry)


def _document(offering: Offering, key: ToolKey) -> Tool:
    properties = {
        p.name: {"type": "string", "description": p.description} for p in offering.parameters
    }
    definition = {
        "name": key.tool,
        "description": f"{offering.title} {offering.description} {offering.identifier}".strip(),
        "inputSchema": {"type": "object", "properties": properties},
    }
    return Tool(offering.server, key.tool, key.tool, canonical_json(definition))


class OfferingList(Struct, frozen=True):
    """The resources, the templates or the prompts of servers, and notices about what is missing."""

    entries: tuple[OfferingEntry, ...]
    notices: tuple[Notice, ...] = ()


class OfferingAccess(Struct, frozen=True):
    settings: Settings
    catalog: Catalog
    addresses: AddressBook
    book: OfferingBook
    servers: ConfiguredServers
    notices: AnswerNotices

    def search(
        self,
        query: str,
        kinds: Collection[SearchKind],
        *,
        server: str | None,
        tags: Sequence[str],
        any_tag: bool,
        limit: int | None,
    ) -> tuple[OfferingHit, ...]:
        """Search resources, templates and prompts; see `View.search_offerings`."""
        limits.require_query(query)
        limits.require_names("tag", tags, most=limits.TAGS)
        only = self.addresses.server(server) if server else None

        def accepts(entry: OfferingEntry) -> bool:
            offering = entry.offering
            is_in_scope = only in (None, offering.server) and _search_kind(offering) in kinds
            has_wanted = entry.verdict.carries(tags, any_tag=any_tag)
            return entry.is_visible and is_in_scope and has_wanted

        settings = self.settings.search
        hits = self.book.index.search(
            query,
            accepts,
            limit=limit if limit is not None else settings.limit,
            least=settings.min_confidence,
        )
        address = self.book.address
        return tuple(OfferingHit(e, address(e.offering), relevance) for e, relevance in hits)

    def resource(self, server: str | None, uri: str) -> ResourceTarget:
        """Return the target of a URI; see `View.resource`."""
        target = self.book.resource(server, uri)
        self._require_visible(target.entry, target.uri, ResourceDisabledError)
        return target

    def template(self, server: str | None, address: str) -> OfferingEntry | None:
        """Return the resource template of that address; see `View.template`."""
        entry = self.book.template(server, address)
        if entry:
            self._require_visible(entry, entry.offering.identifier, ResourceDisabledError)
        return entry

    def prompt(self, server: str | None, name: str) -> OfferingEntry:
        """Return the prompt of that name; see `View.prompt`."""
        entry = self.book.prompt(server, name)
        self._require_visible(entry, entry.offering.identifier, PromptDisabledError)
        return entry

    def of_kind(
        self, kind: OfferingKind, server: str | None, *, include_disabled: bool
    ) -> OfferingList:
        """List the resources, the templates or the prompts; see `View.list_offerings`."""
        only = None if server is None else self.addresses.server(server)
        if only and not include_disabled:
            self.servers.get(only).require_enabled()
        entries = self.book.visible(kind, only)
        if include_disabled:
            parts = [self.catalog.part(only)] if only else self.catalog.parts.values()
            entries = tuple(
                entry
                for part in parts
                for entry in part.of_kind(kind)
                if entry.is_visible or not entry.is_withheld
            )
        return OfferingList(entries, tuple(self.notices.missing(only)))

    def _require_visible(
        self,
        entry: OfferingEntry,
        name: str,
        error: type[ResourceDisabledError | PromptDisabledError],
    ) -> None:
        server, verdict = entry.offering.server, entry.verdict
        with concerning(server, name):
            self.servers.find(server).require_enabled()
        if entry.is_visible:
            return
        command = ""
        if entry.is_withheld:
            is_unpinned = verdict.reason == "unpinned"
            command = (
                "discovery config lock --check" if is_unpinned else f"discovery review {server}"
            )
        subject = entry.offering.subject
        detail = "" if entry.is_withheld else verdict_place(self.settings, entry)
        reason = public_decider(verdict, subject=subject)
        raise error(server, name, reason, detail=detail, command=command)
