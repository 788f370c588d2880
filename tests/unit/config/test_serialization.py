from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from discovery_engine.config.editing.yaml_text import block
from discovery_engine.config.loading.parsing import parse_settings
from discovery_engine.config.sandbox_settings import SandboxSettings
from discovery_engine.config.serialization import serialize, serialize_redacted
from discovery_engine.config.serve_settings import (
    PoolWeights,
    ServeSettings,
    TruncateSettings,
    ViewLimits,
    ViewSettings,
)
from discovery_engine.config.settings import (
    CacheSettings,
    Limits,
    LogSettings,
    OAuthSettings,
    RemoteTransport,
    SearchSettings,
    ServerSettings,
    Settings,
    Source,
    StdioTransport,
    Timeouts,
    Weights,
)
from discovery_engine.diagnostics import Origin
from discovery_engine.errors import ConfigurationError
from discovery_engine.overrides.override import Override
from discovery_engine.rules.rule import Rule
from discovery_engine.tools.model import ServerName, ToolName
from tests.factories import make_problem

LETTERS = "abcxyzNO0189.:-_é日🔧'\"#&*!|>{}[],%@` "
TEXTS = st.text(LETTERS, max_size=12) | st.sampled_from(["no", "12:30", "0123", "null", "~", "1e3"])
WORDS = TEXTS.filter(str.strip)
TEMPLATES = st.lists(TEXTS | st.sampled_from(["${A}", "${B:-c}", "${file:d}"])).map("".join)
PATTERNS = st.sampled_from(["*", "a*", "!*b", "{a,b}_?", "/^x/i", "!/y$/", "git:*", "no", "12:30"])
TAGS = st.lists(WORDS, unique=True, max_size=2).map(tuple)
SECONDS = st.integers(1, 86_400) | st.floats(0.001, 86_400)
SANDBOXES = st.builds(
    SandboxSettings,
    kind=st.sampled_from(["none", "auto", "bubblewrap", "docker", "landlock"]),
    read=st.lists(st.sampled_from(["no", "~/x", "/srv"]), max_size=2).map(tuple),
    write=st.lists(st.sampled_from(["0123", "~", "/"]), max_size=2).map(tuple),
    network=st.booleans(),
    memory_mib=st.integers(16, 99_999),
    processes=st.integers(1, 99_999),
)
STARTED = st.builds(
    StdioTransport,
    command=st.sampled_from(["npx", "/opt/my tools/x", "${CMD}"]),
    args=st.lists(TEMPLATES, max_size=3).map(tuple),
    env=st.dictionaries(st.sampled_from(["A", "no", "b-c"]), TEMPLATES, max_size=2),
    cwd=st.none() | st.sampled_from(["/srv", "${HOME}/x"]),
    sandbox=st.none() | SANDBOXES,
)
REACHED = st.builds(
    RemoteTransport,
    url=st.sampled_from(["https://example.com/mcp", "http://[::1]:8000", "${BASE}/mcp"]),
    headers=st.dictionaries(st.sampled_from(["Authorization", "X-Key"]), TEMPLATES, max_size=2),
    kind=st.sampled_from(["auto", "http", "sse"]),
) | st.builds(
    RemoteTransport,
    url=st.just("https://example.com/mcp"),
    oauth=st.builds(
        OAuthSettings,
        grant=st.sampled_from(["authorization_code", "client_credentials"]),
        client_id=st.sampled_from(["no", "${CLIENT}"]),
        client_secret=st.sampled_from(["0123", "${SECRET:-x}"]),
        scopes=st.lists(st.sampled_from(["a:b", "no"]), unique=True).map(tuple),
        client_metadata_url=st.sampled_from(["", "https://example.com/client.json"]),
        auth_server_metadata_url=st.sampled_from(["", "http://127.0.0.1:1/x"]),
        redirect_uri=st.sampled_from(["", "http://[::1]:8765/callback"]),
    ),
)
SERVERS = st.builds(
    ServerSettings,
    name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9.@-]{0,5}", fullmatch=True).map(ServerName),
    transport=STARTED | REACHED,
    description=TEXTS,
    enabled=st.booleans(),
    prefix=st.sampled_from(["", "x_", "0"]),
    tags=TAGS,
    timeouts=st.builds(Timeouts, connect=SECONDS, list=SECONDS, call=SECONDS),
    limits=st.builds(
        Limits,
        calls=st.integers(1, 1000),
        queue=st.integers(0, 10_000),
        answer_mib=st.integers(1, 1024),
        sessions=st.integers(1, 1000),
        calls_per_minute=st.none() | st.integers(1, 1_000_000),
        burst=st.none() | st.integers(1, 1_000_000),
        max_result_tokens=st.none() | st.just(0) | st.integers(250, 99_999),
    ),
    session=st.sampled_from(["shared", "per_client"]),
    roots=st.none()
    | st.lists(st.sampled_from(["no", "~/x", "file:///a%20b"]), max_size=2).map(tuple),
)
VERDICTS = st.none() | st.booleans()
OFFERING_RULES = st.lists(
    st.builds(
        Rule,
        patterns=st.lists(PATTERNS, max_size=2).map(tuple),
        servers=st.lists(PATTERNS, max_size=2).map(tuple),
        has_tags=st.lists(PATTERNS, max_size=2).map(tuple),
        enabled=VERDICTS,
        tags=TAGS,
    ).filter(lambda rule: rule.enabled is not None or rule.tags),
    max_size=2,
).map(tuple)
VALUES = st.recursive(
    st.booleans() | st.integers(-9999, 9999) | st.floats(-99, 99) | TEMPLATES,
    lambda inner: (
        st.lists(inner | st.none(), max_size=2)
        | st.dictionaries(TEXTS, inner | st.none(), max_size=2)
    ),
    max_leaves=4,
)
OVERRIDES = st.builds(
    Override,
    patterns=st.lists(PATTERNS, min_size=1, max_size=2).map(tuple),
    servers=st.lists(PATTERNS, max_size=2).map(tuple),
    description=st.none() | WORDS,
    name=st.none() | st.sampled_from(["no", "find/it", "07", "größe"]).map(ToolName),
    tags=TAGS,
    arguments=st.dictionaries(st.sampled_from(["a", "no", "Due-date"]), VALUES, max_size=2),
).filter(lambda override: bool(override.gives()))
SETTINGS = st.builds(
    Settings,
    enabled=st.booleans(),
    servers=st.lists(SERVERS, unique_by=lambda server: server.name, max_size=3).map(tuple),
    server_rules=st.lists(
        st.builds(
            Rule,
            patterns=st.lists(PATTERNS, max_size=2).map(tuple),
            has_tags=st.lists(PATTERNS, max_size=2).map(tuple),
            enabled=VERDICTS,
            tags=TAGS,
        ).filter(lambda rule: rule.enabled is not None or rule.tags),
        max_size=2,
    ).map(tuple),
    tool_rules=st.lists(
        st.builds(
            Rule,
            patterns=st.lists(PATTERNS, max_size=2).map(tuple),
            servers=st.lists(PATTERNS, max_size=2).map(tuple),
            annotations=st.fixed_dictionaries(
                {}, optional={"readOnlyHint": st.booleans(), "title": TEXTS}
            ),
            enabled=VERDICTS,
            tags=TAGS,
        ).filter(lambda rule: rule.enabled is not None or rule.tags),
        max_size=2,
    ).map(tuple),
    sources=st.lists(
        st.builds(Source, st.sampled_from(["cursor", "custom"]), st.none() | WORDS), max_size=2
    ).map(tuple),
    overrides=st.lists(OVERRIDES, max_size=2).map(tuple),
    cache=st.builds(CacheSettings, st.booleans(), SECONDS),
    search=st.builds(
        SearchSettings,
        st.integers(1, 1000),
        st.builds(Weights, st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)),
        synonyms=st.lists(
            st.lists(WORDS, min_size=2, max_size=3, unique=True).map(tuple), max_size=2
        ).map(tuple),
        learn=st.booleans(),
    ),
    server=st.builds(
        ServeSettings,
        st.integers(1, 1000),
        SECONDS,
        st.integers(0, 100_000),
        max_sessions=st.integers(1, 10_000),
        max_own_sessions=st.integers(1, 10_000),
        question_timeout=SECONDS,
        pass_env=st.lists(st.sampled_from(["SSH_AUTH_SOCK", "AWS_*"]), max_size=2).map(tuple),
        roots=st.lists(WORDS, max_size=2).map(tuple),
        mode=st.sampled_from(["meta", "direct", "dynamic"]),
        expose=st.lists(PATTERNS, max_size=2).map(tuple),
        pins=st.lists(PATTERNS, max_size=2).map(tuple),
        pool_limit=st.integers(1, 100),
        pool_weights=st.builds(PoolWeights, st.floats(0, 1), st.floats(0, 1)),
        max_tool_name_length=st.integers(10, 200),
        tool_name_style=st.sampled_from(["standard", "gemini"]),
        on_list_changed=st.lists(WORDS, max_size=2).map(tuple),
        max_result_tokens=st.just(0) | st.integers(250, 99_999),
        truncate=st.builds(
            TruncateSettings, st.sampled_from(["boundary", "head_tail"]), st.integers(1, 99_999)
        ),
        steps=st.booleans(),
        # Any other kind would be that of each server without a sandbox.
        sandbox=SANDBOXES.map(lambda sandbox: replace(sandbox, kind="none")),
    ),
    views=st.lists(
        st.builds(
            ViewSettings,
            name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,5}", fullmatch=True),
            rules=st.lists(
                st.builds(
                    Rule, patterns=st.lists(PATTERNS, max_size=2).map(tuple), enabled=st.booleans()
                ),
                max_size=2,
            ).map(tuple),
            resource_rules=OFFERING_RULES,
            prompt_rules=OFFERING_RULES,
            servers=st.lists(PATTERNS, max_size=2).map(tuple),
            tags=TAGS,
            limits=st.builds(
                ViewLimits, st.none() | st.integers(1, 999), st.none() | st.integers(1, 99)
            ),
            mode=st.none() | st.sampled_from(["meta", "direct", "dynamic"]),
            expose=st.none() | st.lists(PATTERNS, max_size=2).map(tuple),
            search_limit=st.none() | st.integers(1, 1000),
            min_confidence=st.none() | st.floats(0, 1),
        ),
        unique_by=lambda view: view.name,
        max_size=2,
    ).map(tuple),
    log=st.builds(
        LogSettings,
        st.sampled_from(["debug", "info", "warning", "error"]),
        st.none() | WORDS,
        st.booleans(),
    ),
)


def without_places(settings: Settings) -> Settings:
    def nowhere(values: Any) -> Any:
        return tuple(replace(value, origin=Origin("")) for value in values)

    return replace(
        settings,
        path=None,
        servers=nowhere(settings.servers),
        server_rules=nowhere(settings.server_rules),
        tool_rules=nowhere(settings.tool_rules),
        overrides=nowhere(settings.overrides),
        views=tuple(
            replace(
                view,
                rules=nowhere(view.rules),
                resource_rules=nowhere(view.resource_rules),
                prompt_rules=nowhere(view.prompt_rules),
            )
            for view in settings.views
        ),
    )


@pytest.mark.thorough
@pytest.mark.requirement("CFG-6")
@given(settings=SETTINGS)
@example(
    settings=Settings(overrides=(Override(("*",), arguments={"a": ["1e3", ".5E-1", "-2.e5"]}),))
)
def test_what_is_written_out_loads_as_the_same(settings: Settings) -> None:
    document = serialize(settings)

    for text in (json.dumps(document), block({"discovery": document})):
        assert without_places(parse_settings(text.encode(), file="f")) == settings


@pytest.mark.requirement("CFG-23")
def test_a_shown_server_says_where_it_comes_from_and_what_is_wrong() -> None:
    problem = make_problem(Origin("f", 1, 2), "servers.b", "is no address")
    settings = Settings(
        servers=(
            ServerSettings(ServerName("a"), StdioTransport("x", env={"K": "v"}), source="cursor"),
            ServerSettings(ServerName("b"), None, problem=problem),
            ServerSettings(ServerName("c"), None),
        )
    )

    assert serialize_redacted(settings)["servers"] == {
        "a": {"command": "x", "env": {"K": "••••"}, "source": "cursor"},
        "b": {"problem": "f:1:2: servers.b: is no address [CONFIG_INVALID_VALUE]"},
        "c": {},
    }


SECRET = "hunter2hunter2"
WITH_SECRETS = f"""\
# {SECRET}
servers:
  one:
    command: npx
    args: [--token, "{SECRET}", '--api-key={SECRET}']
    env:
      TOKEN: {SECRET}
      FOLDED: >-
        {SECRET}
        {SECRET}
      DEFAULT: ${{A:-{SECRET}}}  # {SECRET}
  two:
    url: https://ann:{SECRET}@example.com/?key={SECRET}
    headers: {{X-Key: "{SECRET}", Authorization: 'Bearer {SECRET}'}}
toolRules:
  - {{pattern: 'a*', enabled: false}}
overrides:
  - {{pattern: a, arguments: {{key: {SECRET}, all: [{{of: "{SECRET}"}}], or: "${{A:-{SECRET}}}"}}}}
"""
DAMAGE = st.sampled_from(["", "\t", "\n", "- ", "${", "&x ", *":'\"[]{}*x"])


@pytest.mark.requirement("CFG-23")
def test_secrets_are_hidden_in_what_is_shown() -> None:
    settings = parse_settings(WITH_SECRETS.encode(), file="f")

    assert settings.warnings == ()
    assert SECRET not in json.dumps(serialize_redacted(settings))
    assert SECRET in json.dumps(serialize(settings))


@pytest.mark.requirement("CFG-23")
@given(
    place=st.integers(0, len(WITH_SECRETS)),
    cut=st.integers(0, 3),
    damage=DAMAGE,
    key=st.sampled_from(
        [
            "one",
            "env",
            "headers",
            "servers",
            "TOKEN",
            "url",
            "args",
            "command",
            "arguments",
            "key",
            "of",
        ]
    ),
    other=st.sampled_from(["enviroment", "server", "toolRules", "x", "discovery", "tags", "cache"]),
)
def test_secrets_are_hidden_however_a_file_is_broken(
    place: int, cut: int, damage: str, key: str, other: str
) -> None:
    damaged = WITH_SECRETS[:place] + damage + WITH_SECRETS[place + cut :]
    for text in (damaged, WITH_SECRETS.replace(f"{key}:", f"{other}:")):
        try:
            problems = parse_settings(text.encode(), file="f").warnings
        except ConfigurationError as error:
            problems = error.problems
        told = "\n".join(f"{problem}\n{problem.excerpt}" for problem in problems)
        assert SECRET not in told


@pytest.mark.requirement("CFG-23")
def test_secrets_are_hidden_behind_characters_that_json_spells_as_two() -> None:
    entry = {"command": "x", "description": "\N{SLIGHTLY SMILING FACE}" * 3, "env": {"A": SECRET}}
    text = json.dumps({"servers": {"a": {**entry, "bogus": 1}}})

    [problem] = parse_settings(text.encode(), file="f").warnings

    assert problem.origin.column == text.index('"bogus"') + 1
    assert not any(SECRET[at : at + 2] in problem.excerpt for at in range(len(SECRET) - 1))
