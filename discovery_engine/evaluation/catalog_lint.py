"""Findings about what is hard to find or to use in a catalog; for tools, with drafts of overrides.

A finding is advice about descriptions. Resources, templates and prompts have no overrides, so only
the author of their server can follow it. The draft contains what can be derived without
knowing more; a person who knows the tool can improve it, and `discovery tune eval` shows how.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine._util.text import clean, named
from discovery_engine.catalog import Entry
from discovery_engine.errors import Diagnostic
from discovery_engine.errors.codes import Severity as DiagnosticSeverity
from discovery_engine.evaluation.report import DEPTH
from discovery_engine.evaluation.suggest import name_stems, stems
from discovery_engine.rpc.protocol import LATEST_HANDSHAKE
from discovery_engine.rpc.validity import changes_of
from discovery_engine.search.text.tokenizer import fold, words
from discovery_engine.tools.model import Parameter, ServerName, Tool, ToolKey, canonical_json
from discovery_engine.tools.offering import Offering, OfferingKind
from discovery_engine.tools.schema_cost import too_costly_tool
from discovery_engine.trust.scanner import Finding, Severity, scan, scan_catalog
from discovery_engine.view.view import View

SEARCHES = 500
"""Tools that are searched for; in a catalog of ten thousand a search takes a few milliseconds."""

_MAX_LISTED_IN_FINDING = 3  # of many, so many are named
_LARGEST_SCHEMA = 8000  # characters of JSON; about 2,000 tokens whenever the tool is looked at
_GLOB_SYNTAX = re.compile(r"^[!/]|[*?\[\]{}\\]")
_NOT_IN_NAMES = re.compile(r"[^\w./-]+")
_LONGEST_NAME = 128  # characters
_PLAIN_NAME = re.compile(r"[\w.$-]{1,200}")  # as a key of a configuration, without question
_INVALID_HINT = "clients get it without them; the author of the server can correct them"
_EMPTY_VALUES: JSONObject = {
    "string": "",
    "integer": 0,
    "number": 0,
    "boolean": False,
    "array": [],
    "object": {},
}


class CatalogFinding(Diagnostic, frozen=True, kw_only=True):
    """A reason why one or several things that a server offers are hard to find or to use."""

    tools: tuple[ToolKey, ...] = ()
    overrides: tuple[JSONObject, ...] = ()
    """Entries for `overrides:`, as drafts; none where only the tool's author can change it."""
    offerings: tuple[Offering, ...] = ()
    """The resources, templates or prompts that it is about, if not tools."""

    def to_json(self) -> JSONObject:
        about: JSONObject = {"tools": list(map(str, self.tools)), "overrides": [*self.overrides]}
        about["offerings"] = [
            f"{offering.server}:{offering.decision_key}" for offering in self.offerings
        ]
        return Diagnostic.to_json(self) | about


class CatalogLint(Struct, frozen=True):
    findings: tuple[CatalogFinding, ...]
    searched: int
    """How many tools were searched for by their own summaries."""
    searchable: int
    """How many could have been."""


def lint_catalog(view: View, *, searches: int = SEARCHES) -> CatalogLint:
    """The findings about the tools that agents see; the same tools give the same findings.

    Args:
        view: The catalog.
        searches: The most tools to search for; of more, so many are taken evenly.
    """
    entries = list(view.catalog.visible)
    groups = confusable(entries)
    grouped = {entry.key for group in groups for entry in group}
    alone = [e for e in entries if _describes_itself(e) and e.key not in grouped]
    sought = _evenly(alone, searches)
    findings = [
        *(_confusable(group, view) for group in groups),
        *_crowded(entries),
        *map(_undescribed, (e for e in entries if not _describes_itself(e))),
        *map(_unfound, (e for e in sought if not _finds_itself(e, view))),
        *_each(_undocumented(entry) for entry in entries),
        *_each(_oversized(entry) for entry in entries),
        *_each(_costly(entry) for entry in entries),
        *_each(_invalid_tool(entry) for entry in entries),
        *_about_offerings(view),
    ]
    return CatalogLint(tuple(findings), len(sought), len(alone))


def _about_offerings(view: View) -> Iterator[CatalogFinding]:
    """About resources, templates and prompts; of those of one server and kind, one finding."""
    for part in view.catalog.parts.values():
        offerings = [e.offering for e in part.offerings if e.is_visible and part.verdict.enabled]
        for kind in OfferingKind:
            bare = [
                offering
                for offering in offerings
                if offering.kind is kind and not offering.description.strip()
            ]
            if bare:
                yield _undescribed_offerings(bare)
        yield from _each(map(_undocumented_prompt, offerings))
        yield from _each(map(_invalid_offering, offerings))


def _undescribed_offerings(offerings: Sequence[Offering]) -> CatalogFinding:
    first = offerings[0]
    names = [named(offering.name) for offering in offerings[:_MAX_LISTED_IN_FINDING]]
    if rest := len(offerings) - len(names):
        names.append(f"{rest} more")
    kind = first.kind.label if len(offerings) == 1 else f"{len(offerings)} {first.kind.label}s"
    has = "has" if len(offerings) == 1 else "have"
    return CatalogFinding(
        code="OFFERING_UNDESCRIBED",
        message=f"{kind} of {first.server} {has} no description: {', '.join(names)}",
        hint="a search finds it by its name only; the author of the server can describe it",
        subject=first.server,
        offerings=tuple(offerings),
    )


def _undocumented_prompt(prompt: Offering) -> CatalogFinding | None:
    bare = [p.name for p in prompt.parameters if p.required and not p.description.strip()]
    if not bare:
        return None
    noun = "argument" if len(bare) == 1 else "arguments"
    return CatalogFinding(
        code="PROMPT_ARGUMENTS_UNDESCRIBED",
        message=f"prompt {prompt.label} does not describe its required {noun} "
        + ", ".join(map(named, bare)),
        hint="who fills it in has to guess; the author of the server can describe them",
        subject=f"{prompt.server}:{prompt.decision_key}",
        offerings=(prompt,),
    )


def pattern_of(tool: Tool) -> str:
    """A pattern that matches one tool, whatever characters its name has."""
    return _GLOB_SYNTAX.sub(r"\\\g<0>", f"{tool.server}:{tool.given_name}")


def _finding(
    code: str,
    tools: tuple[ToolKey, ...],
    message: str,
    hint: str,
    overrides: tuple[JSONObject, ...] = (),
) -> CatalogFinding:
    subject = str(tools[0]) if len(tools) == 1 else ""
    return CatalogFinding(
        code=code, message=message, hint=hint, subject=subject, tools=tools, overrides=overrides
    )


def _override(entry: Entry, **fields: JSONValue) -> JSONObject:
    return {"pattern": pattern_of(entry.tool), **fields}


def _redescribed(entry: Entry, description: str) -> JSONObject:
    return _override(entry, description=clean(description))


def _confusable(group: Group, view: View) -> CatalogFinding:
    about = {server.name: server.description for server in view.settings.servers}
    overrides = []
    for entry in group:
        server = entry.tool.server
        place = f"{server} ({about[server].rstrip('.')})" if about.get(server) else server
        description = f"In {place}: {entry.tool.description or _spelled(entry)}"
        overrides.append(_redescribed(entry, description))
    return _finding(
        "TOOL_CONFUSABLE",
        tuple(entry.key for entry in group),
        f"{', '.join(_group_labels(group))} can hardly be distinguished",
        "describe in each when it is the right one, or disable all but one",
        tuple(overrides),
    )


def _crowded(entries: Iterable[Entry]) -> Iterator[CatalogFinding]:
    """Names that more tools have than an answer shows."""
    by_name: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_name[fold(entry.tool.name)].append(entry)
    for namesakes in by_name.values():
        if len(namesakes) > DEPTH:
            names = ((f"{entry.tool.server}_{entry.tool.name}", entry) for entry in namesakes)
            yield _finding(
                "TOOL_NAME_CROWDED",
                tuple(entry.key for entry in namesakes),
                f"{len(namesakes)} tools are called {namesakes[0].tool.name!r}; "
                f"a search for the name shows {DEPTH} of them",
                "give them names of their own",
                tuple(
                    _override(entry, name=_NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME])
                    for name, entry in names
                ),
            )


def _describes_itself(entry: Entry) -> bool:
    """Return whether the description has words that the name lacks."""
    return not set(stems(entry.tool.description)) <= set(name_stems(entry.tool.name))


def _undescribed(entry: Entry) -> CatalogFinding:
    fault = "has no more than its name" if entry.tool.description else "is empty"
    needs = ", ".join(_spell(parameter.name) for parameter in entry.tool.parameters)
    takes = f". Takes {needs}" if needs else ""
    description = f"{_spelled(entry)} in {entry.tool.server}{takes}."
    return _finding(
        "TOOL_UNDESCRIBED",
        (entry.key,),
        f"the description of {entry.key.label} {fault}",
        "describe what it does, in words that a user would search for",
        (_redescribed(entry, description),),
    )


def _finds_itself(entry: Entry, view: View) -> bool:
    searcher = view.searcher
    query = searcher.analyze(entry.tool.summary)
    hits = searcher.search(query, limit=DEPTH, accepts=lambda e: e.is_visible)
    return any(hit.entry.key == entry.key for hit in hits)


def _unfound(entry: Entry) -> CatalogFinding:
    description = f"{_spelled(entry)} ({entry.tool.server}): {entry.tool.description}"
    return _finding(
        "TOOL_UNFINDABLE",
        (entry.key,),
        f"its own summary does not bring {entry.key.label} among the first {DEPTH}",
        "begin its description with what it alone does",
        (_redescribed(entry, description),),
    )


def _undocumented(entry: Entry) -> CatalogFinding | None:
    bare = [p for p in entry.tool.parameters if p.required and not p.description.strip()]
    if not bare:
        return None
    arguments = ", ".join(f"{p.name} ({p.type}): {_spell(p.name)}" for p in bare)
    about = entry.tool.description.rstrip() or f"{_spelled(entry)}."
    noun = "argument" if len(bare) == 1 else "arguments"
    names = ", ".join(named(p.name) for p in bare)
    return _finding(
        "TOOL_ARGUMENTS_UNDESCRIBED",
        (entry.key,),
        f"{entry.key.label} does not describe its required {noun} {names}",
        "describe what it expects, with an example",
        (_redescribed(entry, f"{about} Arguments: {arguments}."),),
    )


def _oversized(entry: Entry) -> CatalogFinding | None:
    size = len(canonical_json(entry.tool.input_schema))
    if size <= _LARGEST_SCHEMA:
        return None
    optional = [p for p in entry.tool.parameters if not p.required]
    largest = max(optional, key=lambda p: (_size(p), p.name), default=None)
    pinned = _pin(largest) if largest else {}
    message = f"the schema of {entry.key.label} takes {size:,} characters"
    if largest:
        message += f", {_size(largest):,} of them for {named(largest.name)}"
    return _finding(
        "TOOL_SCHEMA_LARGE",
        (entry.key,),
        message,
        "pin what never changes, and it need not be described",
        (_override(entry, arguments=pinned),) if pinned else (),
    )


def _costly(entry: Entry) -> CatalogFinding | None:
    why = too_costly_tool(entry.tool)
    if why is None:
        return None
    return _finding(
        "TOOL_SCHEMA_COSTLY",
        (entry.key,),
        f"the schema of {entry.key} is too costly to check: {why}",
        "its arguments may be sent unchecked; only its author can change that",
    )


def _invalid_tool(entry: Entry) -> CatalogFinding | None:
    tool = entry.tool
    # A schema that cannot be used is not shown in any case.
    definition = {**tool.definition, "inputSchema": tool.input_schema}
    lost = _lost("tools/list", "tools", definition)
    if not lost:
        return None
    return _finding("DEFINITION_INVALID", (entry.key,), f"{entry.key.label} {lost}", _INVALID_HINT)


def _invalid_offering(offering: Offering) -> CatalogFinding | None:
    wire = offering.kind.wire
    lost = _lost(wire.method, wire.member, offering.definition)
    if not lost:
        return None
    return CatalogFinding(
        code="DEFINITION_INVALID",
        message=f"{offering.kind.label} {offering.label} {lost}",
        hint=_INVALID_HINT,
        subject=f"{offering.server}:{offering.decision_key}",
        offerings=(offering,),
    )


def _lost(method: str, member: str, definition: JSONObject) -> str:
    """Say which members of a definition clients do not get as they are; empty if none."""
    changes = changes_of(method, {member: [definition]}, LATEST_HANDSHAKE)
    places = [named(place.removeprefix(f"{member}[0].")) for place in changes]
    more = (
        [f"{len(places) - _MAX_LISTED_IN_FINDING} more"]
        if len(places) > _MAX_LISTED_IN_FINDING
        else []
    )
    listed = ", ".join([*places[:_MAX_LISTED_IN_FINDING], *more])
    return f"has members that are not valid: {listed}" if listed else ""


def _pin(parameter: Parameter) -> JSONObject:
    """The parameter with a likely value, if it can be written into a configuration as it is."""
    value = _likely_value(parameter)
    is_plain = value is not None and "${" not in canonical_json(value)
    return {parameter.name: value} if is_plain and _PLAIN_NAME.fullmatch(parameter.name) else {}


def _size(parameter: Parameter) -> int:
    return len(canonical_json(parameter.schema))


def _likely_value(parameter: Parameter) -> JSONValue:
    """Return the first value that the schema names, or an empty one of its type, if any."""
    schema = parameter.schema
    choices = schema.get("enum")
    if "default" in schema:
        return schema["default"]
    if isinstance(choices, list) and choices:
        return choices[0]
    kinds = (kind for kind in parameter.type.split("|") if kind in _EMPTY_VALUES)
    return next((_EMPTY_VALUES[kind] for kind in kinds), None)


def _spelled(entry: Entry) -> str:
    """A tool's name as words, for instance `Create issue`."""
    name = _spell(entry.tool.name)
    return name[:1].upper() + name[1:]


def _spell(name: str) -> str:
    return " ".join(words(name)) or name


def _evenly(entries: Sequence[Entry], most: int) -> list[Entry]:
    """At most so many of them, as far apart as can be."""
    if len(entries) <= most:
        return list(entries)
    return [entries[i * len(entries) // most] for i in range(most)]


def _each(findings: Iterable[CatalogFinding | None]) -> Iterator[CatalogFinding]:
    return (finding for finding in findings if finding)


# Two tools are alike if their names are the same and their summaries share half of their words, or
# if name and summary together share four words in five. Every such pair is found, without looking
# at each: tools that share so much share one of their rarest words (prefix filtering, as in
# similarity joins).

_ALIKE = 0.8  # of the words of name and summary
_LABELS = 5  # tools of a group that a finding names
_ALIKE_WITH_NAME = 0.5  # of the words of the summary, where the names are the same

Words: TypeAlias = frozenset[str]
Group: TypeAlias = tuple[Entry, ...]


class _Profile(Struct, frozen=True):
    """The parts of a tool that are compared."""

    entry: Entry
    name: Words
    summary: Words
    words: Words
    """All of both."""

    @property
    def server(self) -> ServerName:
        return self.entry.tool.server

    @classmethod
    def of(cls, entry: Entry) -> _Profile:
        own = frozenset(name_stems(entry.tool.name))
        # Many servers put their own name before each tool's, which is no information about it.
        name = own.difference(name_stems(entry.tool.server)) or own
        summary = frozenset(stems(entry.tool.summary))
        return cls(entry, name, summary, name | summary)


def confusable(entries: Iterable[Entry]) -> tuple[Group, ...]:
    """Groups of tools in which each is like the first, which is of another server.

    A tool is in one group at most: the first of its likes, in the order of the entries, leads.
    """
    profiles = [_Profile.of(entry) for entry in entries]
    candidates = _Candidates(profiles)
    taken: set[int] = set()
    groups = []
    for position, leader in enumerate(profiles):
        if position in taken:
            continue
        near = [
            other
            for other in sorted(candidates.of(position))
            if other > position and other not in taken and _are_alike(leader, profiles[other])
        ]
        if near:
            taken.update(near)
            groups.append((leader.entry, *(profiles[other].entry for other in near)))
    return tuple(groups)


class _Candidates:
    """Finds tools of other servers that may be alike, by a name or by one of the rarest words."""

    def __init__(self, profiles: Sequence[_Profile]) -> None:
        counts = Counter(word for profile in profiles for word in profile.words)
        self._servers = [profile.server for profile in profiles]
        self._keys: list[tuple[Words | str, ...]] = [
            (profile.name, *_rarest(profile.words, counts)) for profile in profiles
        ]
        self._found: defaultdict[Words | str, dict[ServerName, list[int]]] = defaultdict(dict)
        for position, (server, keys) in enumerate(zip(self._servers, self._keys, strict=True)):
            for key in keys:
                self._found[key].setdefault(server, []).append(position)

    def of(self, position: int) -> set[int]:
        own = self._servers[position]
        by_server = (item for key in self._keys[position] for item in self._found[key].items())
        return {other for server, positions in by_server if server != own for other in positions}


def _rarest(words: Words, counts: Counter[str]) -> list[str]:
    """The words of which two sets that are alike must share one."""
    ordered = sorted(words, key=lambda word: (counts[word], word))
    return ordered[: len(ordered) - math.ceil(_ALIKE * len(ordered)) + 1]


def _are_alike(left: _Profile, right: _Profile) -> bool:
    if left.name == right.name and left.name:
        return _likeness(left.summary, right.summary) >= _ALIKE_WITH_NAME
    return bool(left.words) and _likeness(left.words, right.words) >= _ALIKE


def _likeness(left: Words, right: Words) -> float:
    """The share of their words that both have; two without words are the same."""
    shared = len(left & right)
    return shared / (len(left) + len(right) - shared) if left or right else 1.0


def _group_labels(group: Group) -> Iterator[str]:
    """The names of a group's tools, the first few of them spelled out."""
    yield from (entry.key.label for entry in group[:_LABELS])
    if len(group) > _LABELS:
        yield f"{len(group) - _LABELS} more"


# A finding is no advice to an author: it is a warning about a server, for the owner to judge.

Subject: TypeAlias = ToolKey | Offering | ServerName

_GRAVEST_FIRST = tuple(Severity)

_SEVERITIES: Mapping[Severity, DiagnosticSeverity] = {
    Severity.DANGER: "error",
    Severity.WARNING: "warning",
    Severity.NOTICE: "info",
}


class Suspicion(Diagnostic, frozen=True, kw_only=True):
    """One finding about what a server offers, or about its instructions."""

    about: Subject
    finding: Finding
    is_held_back: bool

    @property
    def severity(self) -> DiagnosticSeverity:
        """That of the text: what is a danger in one place may be harmless in another."""
        return _SEVERITIES[self.finding.severity]

    @property
    def server(self) -> ServerName:
        return self.about if isinstance(self.about, str) else self.about.server

    @property
    def label(self) -> str:
        """The name of what it is about, as one line of output shows it."""
        match self.about:
            case Offering() as offering:
                return f"{offering.kind.label} {offering.label}"
            case ToolKey() as key:
                return key.label
        return self.about

    def to_json(self) -> JSONObject:
        tool = self.about.tool if isinstance(self.about, ToolKey) else None
        offering = self.about.decision_key if isinstance(self.about, Offering) else None
        about = {"server": self.server, "tool": tool, "offering": offering}
        held = {"is_held_back": self.is_held_back}
        return Diagnostic.to_json(self) | about | held | self.finding.to_json()


def _suspicion(about: Subject, finding: Finding, *, is_held_back: bool) -> Suspicion:
    server = about if isinstance(about, str) else about.server
    hint = _hint(about)
    if is_held_back:
        hint = f"it is withheld; `discovery review {server}` shows it whole"
    return Suspicion(
        code=finding.code,
        message=finding.message,
        hint=hint,
        subject=f"{server}:{about.decision_key}" if isinstance(about, Offering) else str(about),
        excerpt=finding.excerpt,
        about=about,
        finding=finding,
        is_held_back=is_held_back,
    )


def _hint(about: Subject) -> str:
    if not isinstance(about, Offering):
        return f"`discovery inspect {about}` shows it; a rule may disable it"
    is_prompt = about.kind is OfferingKind.PROMPT
    listing, section = ("prompts", "promptRules") if is_prompt else ("resources", "resourceRules")
    return f"`discovery {listing} --json` shows it; a rule of `{section}` may disable it"


def lint_texts(view: View) -> tuple[Suspicion, ...]:
    """Every finding, the gravest first; also about what is disabled or withheld."""
    parts = view.catalog.parts
    instructions = {
        name: text for name, part in parts.items() if (text := part.present_instructions)
    }
    held: set[ToolKey | ServerName] = {e.key for e in view.catalog if e.is_withheld}
    held |= {name for name, part in parts.items() if part.new_instructions is not None}
    findings_by_subject = scan_catalog(
        (entry.tool for entry in view.catalog), instructions=instructions
    )
    suspicions = [
        _suspicion(subject, finding, is_held_back=subject in held)
        for subject, findings in findings_by_subject.items()
        for finding in findings
    ]
    suspicions += [
        _suspicion(entry.offering, finding, is_held_back=entry.is_withheld)
        for part in parts.values()
        for entry in part.offerings
        for finding in scan(entry.offering)
    ]
    return tuple(
        sorted(suspicions, key=lambda suspicion: _GRAVEST_FIRST.index(suspicion.finding.severity))
    )
