"""Any world that a registry may be asked to remember."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.catalog import Catalog, DroppedTool, Entry, Failure, RemovedTool, ServerPart
from discovery_engine.config.serve_settings import ServeSettings
from discovery_engine.config.settings import (
    CacheSettings,
    InputFile,
    Limits,
    LogSettings,
    RemoteTransport,
    SearchSettings,
    ServerSettings,
    Settings,
    Source,
    StdioTransport,
    Timeouts,
    Weights,
)
from discovery_engine.errors import Origin
from discovery_engine.rules.overrides.override import Override
from discovery_engine.rules.rule import Rule, Verdict
from discovery_engine.store.snapshot import Snapshot
from discovery_engine.tools.model import AppliedOverride, ServerName, Tool, ToolName
from discovery_engine.trust.scanner import Finding, FindingKind, Severity
from tests.factories import make_problem

TEXT = st.text(max_size=8)
NAME = st.text(st.characters(), min_size=1, max_size=6)  # whatever a stranger calls it
SECONDS = st.floats(0, 1e9)
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
MAPPING = st.dictionaries(TEXT, TEXT, max_size=2)

ORIGINS = st.builds(Origin, TEXT, st.integers(0, 99), st.integers(0, 99))
POLICIES = st.sampled_from(["open", "on_first_use", "quarantine"])
PROBLEMS = st.builds(make_problem, ORIGINS, TEXT, TEXT, TEXT, TEXT)
RULES = st.builds(
    Rule,
    patterns=TEXTS,
    servers=TEXTS,
    annotations=st.dictionaries(TEXT, st.booleans() | TEXT, max_size=2),
    has_tags=TEXTS,
    enabled=st.none() | st.booleans(),
    tags=TEXTS,
    origin=ORIGINS,
)
OVERRIDES = st.builds(
    Override,
    patterns=TEXTS,
    servers=TEXTS,
    description=st.none() | TEXT,
    name=st.none() | NAME.map(ToolName),
    tags=TEXTS,
    arguments=st.dictionaries(TEXT, TEXT | st.integers(), max_size=2),
    origin=ORIGINS,
)
OVERRIDDEN = st.builds(
    AppliedOverride,
    name=st.none() | NAME.map(ToolName),
    description=st.none() | TEXT,
    tags=TEXTS,
    pinned=st.dictionaries(TEXT, st.integers(0, 9), max_size=2),
    by=st.lists(st.integers(0, 9), min_size=1, max_size=2).map(tuple),
    problems=TEXTS,
)
VERDICTS = st.builds(
    Verdict,
    st.booleans(),
    TEXTS,
    st.sampled_from(["default", "rule", "whitelist", "server", "changed", "altered"]),
    st.none() | st.integers(0, 9),
)
FINDINGS = st.lists(
    st.builds(Finding, st.sampled_from(FindingKind), st.sampled_from(Severity), TEXT, TEXT, TEXT),
    min_size=1,
    max_size=2,
).map(tuple)
TRANSPORTS = (
    st.none()
    | st.builds(StdioTransport, TEXT, TEXTS, MAPPING, st.none() | TEXT)
    | st.builds(RemoteTransport, TEXT, MAPPING, st.sampled_from(["auto", "http", "sse"]))
)


def servers(name: str) -> st.SearchStrategy[ServerSettings]:
    return st.builds(
        ServerSettings,
        name=st.just(ServerName(name)),
        transport=TRANSPORTS,
        description=TEXT,
        enabled=st.booleans(),
        prefix=TEXT,
        tags=TEXTS,
        timeouts=st.builds(Timeouts, SECONDS, SECONDS, SECONDS),
        limits=st.builds(Limits, *[st.integers(1, 99)] * 4),
        session=st.sampled_from(["shared", "per_client"]),
        trust=st.none() | POLICIES,
        is_untrusted_origin=st.booleans(),
        bound_to=TEXT,
        origin=ORIGINS,
        source=TEXT,
        problem=st.none() | PROBLEMS,
    )


def parts(server: str) -> st.SearchStrategy[ServerPart]:
    fields = {
        "server": st.just(ServerName(server)),
        "entries": st.lists(NAME, unique=True, max_size=4).flatmap(lambda n: entries(server, n)),
        "verdict": VERDICTS,
        "listed_at": st.none() | SECONDS,
        "ttl": st.none() | SECONDS,
        "failure": st.none() | st.builds(Failure, TEXT, TEXT, TEXT, SECONDS),
        "dropped": st.lists(st.builds(DroppedTool, NAME, TEXT), max_size=2).map(tuple),
        "removed": st.lists(st.builds(RemovedTool, NAME, SECONDS), max_size=2).map(tuple),
        "instructions": TEXT,
        "connection": TEXT,
        "findings": st.none() | st.dictionaries(NAME, FINDINGS, max_size=2),
    }
    return st.fixed_dictionaries(fields).map(lambda given: ServerPart(**given))


def entries(server: str, names: list[str]) -> st.SearchStrategy[tuple[Entry, ...]]:
    return st.tuples(*(entry(server, name) for name in sorted(names)))


def entry(server: str, name: str) -> st.SearchStrategy[Entry]:
    definitions = st.fixed_dictionaries({"name": st.just(name), "description": NAME})
    tools = st.builds(
        lambda d, overridden: replace(Tool.from_mcp(ServerName(server), d), overridden=overridden),
        definitions,
        st.just(AppliedOverride()) | OVERRIDDEN,
    )
    return st.builds(Entry, tools, VERDICTS)


@st.composite
def worlds(draw: st.DrawFn) -> Snapshot:
    names = draw(st.lists(NAME, unique=True, max_size=4))
    settings = st.builds(
        Settings,
        enabled=st.booleans(),
        servers=st.tuples(*map(servers, names)),
        server_rules=st.lists(RULES, max_size=2).map(tuple),
        tool_rules=st.lists(RULES, max_size=2).map(tuple),
        overrides=st.lists(OVERRIDES, max_size=2).map(tuple),
        sources=st.lists(st.builds(Source, TEXT, st.none() | TEXT), max_size=2).map(tuple),
        cache=st.builds(CacheSettings, st.booleans(), SECONDS),
        search=st.builds(
            SearchSettings,
            st.integers(1, 99),
            st.builds(Weights, SECONDS, SECONDS, SECONDS),
            synonyms=st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple),
            learn=st.booleans(),
        ),
        server=st.builds(ServeSettings, st.integers(1, 99), SECONDS, st.integers(0, 999)),
        log=st.builds(
            LogSettings, st.sampled_from(["debug", "error"]), st.none() | TEXT, st.booleans()
        ),
        trust=POLICIES,
        path=st.none() | TEXT,
        is_untrusted_origin=st.booleans(),
        frozen=st.booleans(),
        inputs=st.lists(st.builds(InputFile, TEXT, st.none() | TEXT), max_size=2).map(tuple),
        warnings=st.lists(PROBLEMS, max_size=2).map(tuple),
    )
    listed = [name for name in names if draw(st.booleans())]
    catalog = Catalog.of(draw(st.tuples(*map(parts, listed))), revision=draw(st.integers(1, 99)))
    return Snapshot(draw(settings), catalog)
